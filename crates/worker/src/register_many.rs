//! `skills::register-many`: an import as one commit of the store. Readers, the change log and git remotes have all of its
//! skills or none.

use std::sync::Arc;

use skills_core::{Coded as _, Label, outcome_details};
use skills_registry::{BundlePublication, PublishRequest, RegistryError};

use crate::{
    Context,
    contract::{
        ManyResult, PublishedVersion, RegisterManyInput, RegisterManyOutput, SkillToRegister,
    },
    error::message,
    functions::{bundle, provenance, spec},
    register::Registrar,
};

pub(crate) const REGISTER_MANY: &str = "skills::register-many";

pub(crate) fn register(functions: &Registrar<'_, Arc<Context>>) {
    functions.typed(
        spec::<RegisterManyInput, RegisterManyOutput>(
            REGISTER_MANY,
            "Register skills together: they appear at once, and a refused one does not affect the others.",
        ),
        |context, actor, mut input: RegisterManyInput| {
            let target = context.keys.write_target(&input, input.tier, actor);
            let skills = std::mem::take(&mut input.skills);
            let ids: Vec<String> = skills.iter().map(|skill| skill.id.clone()).collect();
            // Queued before any `await`: the writes of a caller keep their order.
            let write = target.map(|(layer, actor)| {
                let (mut publications, mut refused) = (Vec::new(), Vec::new());
                for skill in skills {
                    match publication(context, skill, &actor) {
                        Ok(publication) => {
                            publications.push(publication);
                            refused.push(None);
                        }
                        Err(error) => refused.push(Some(error)),
                    }
                }
                (context.registry.publish_bundles(&actor, &layer, publications), refused)
            });
            async move {
                let (write, refused) = write?;
                let mut published = write.await?.into_iter();
                let results = refused.into_iter().map(|refused| match refused {
                    Some(error) => Err(error),
                    None => published.next().unwrap_or(Err(RegistryError::Unexpected("a put"))),
                });
                let results = ids.into_iter().zip(results).map(|(id, result)| match result {
                    Ok(published) => ManyResult::Registered {
                        id,
                        version: PublishedVersion::from(&published),
                        registered_at: published.registered_at,
                    },
                    Err(error) => ManyResult::Refused {
                        id,
                        code: error.code_text().into_owned(),
                        message: message(&error),
                        details: outcome_details(&error),
                    },
                });
                Ok(RegisterManyOutput { results: results.collect() })
            }
        },
    );
}

fn publication(
    context: &Context,
    skill: SkillToRegister,
    actor: &str,
) -> Result<BundlePublication, RegistryError> {
    let SkillToRegister { id, skill, files, executable, source, message, expected_version, label } =
        skill;
    let source = provenance(source, actor)?;
    let bundle = bundle(skill, files, executable.as_deref())?.with_provenance(Some(source));
    if let Some(characters) = bundle.truncated_description() {
        context.log_truncated_description(&id, characters);
    }
    let request = PublishRequest { message, expected_version };
    let label = label.map(|label| label.parse::<Label>()).transpose()?;
    Ok(BundlePublication { id, bundle, request, label })
}
