//! Skills that every server of a run serves, byte for byte.

/// Size of a body.
pub(crate) const BYTES: usize = 4096;

pub(crate) fn id(number: usize) -> String {
    format!("skill-{number}")
}

pub(crate) fn uri(number: usize) -> String {
    format!("iii://skill-{number}")
}

pub(crate) fn description(number: usize) -> String {
    format!("What skill {number} is for, and when to use it.")
}

/// Builds a body with the frontmatter that a skill in a folder needs.
pub(crate) fn body(number: usize) -> String {
    let (id, description) = (id(number), description(number));
    let mut text =
        format!("---\nname: {id}\ndescription: {description}\n---\n\n# {id}\n\n{description}\n\n");
    while text.len() < BYTES {
        text.push_str("A line of guidance, as one finds them in a document.\n");
    }
    text.truncate(BYTES);
    text
}
