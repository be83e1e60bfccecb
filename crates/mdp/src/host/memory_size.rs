//! Estimate of the memory of a registered client. It is far more than the bytes it sent: a short path takes an index node
//! for each of its segments, and a JSON value of two bytes a tree of its own. The estimate errs on the high side.

use std::mem::size_of;

use serde_json::{Map, Value};

use super::ClientCatalog;
use crate::{
    MdpLimits, SessionError,
    wire::{ClientInfo, Descriptor},
};

/// Bytes of an index node, with its name in the parent node.
const NODE_BYTES: usize = 256;
/// Bytes of a path, with its entry in the registry.
const PATH_BYTES: usize = 1024;
/// Copies of a text: as received, and in the data for listings and searches.
const TEXT_COPIES: usize = 4;
/// Bytes of a value in a list with twice the capacity it needs.
const VALUE_BYTES: usize = 2 * size_of::<Value>();
/// Bytes of a field besides its value and its name.
const FIELD_BYTES: usize = 64;

/// Maximum bytes of the values of one path, or of the client without its paths. A listing has room for one of them.
const MAX_ENTRY_BYTES: usize = 2 << 20;

/// Checks the memory of a client and of each of its paths.
pub(super) fn check(
    info: &ClientInfo,
    catalog: &ClientCatalog,
    memory_size: usize,
    limits: &MdpLimits,
) -> Result<(), SessionError> {
    let check = |what, bytes, max| {
        if bytes > max { Err(SessionError::CatalogTooLarge { what, bytes, max }) } else { Ok(()) }
    };
    check("the catalog", memory_size, limits.client_bytes)?;
    check("the description of the client", info_size(info), MAX_ENTRY_BYTES)?;
    catalog
        .descriptors()
        .iter()
        .try_for_each(|one| check("a path", path_size(one), MAX_ENTRY_BYTES))
}

fn info_size(info: &ClientInfo) -> usize {
    info.metadata.as_ref().map_or(0, fields_size) + fields_size(&info.extra)
}

/// Estimates the memory of a client whose description has `bytes` bytes.
pub(super) fn estimate(info: &ClientInfo, catalog: &ClientCatalog, bytes: usize) -> usize {
    let paths = catalog.descriptors();
    bytes * TEXT_COPIES
        + catalog.node_count() * NODE_BYTES
        + paths.len() * PATH_BYTES
        + info_size(info)
        + paths.iter().map(path_size).sum::<usize>()
}

fn path_size(descriptor: &Descriptor) -> usize {
    let Descriptor { input_schema, output_schema, extra, .. } = descriptor;
    let schemas = [input_schema, output_schema].into_iter().flatten();
    schemas.chain([extra]).map(fields_size).sum()
}

fn fields_size(fields: &Map<String, Value>) -> usize {
    fields.values().map(|value| FIELD_BYTES + value_size(value)).sum()
}

fn value_size(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::Array(values) => values.iter().map(value_size).sum(),
            Value::Object(map) => fields_size(map),
            _ => 0,
        }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use skills_core::Coded as _;

    use super::*;
    use crate::{
        MdpLimits,
        wire::{ClientDescriptor, DescriptorKind, Method},
    };

    fn memory_size(client: Value) -> usize {
        let bytes = client.to_string().len();
        let ClientDescriptor { info, paths } = ClientDescriptor::parse(client).unwrap();
        estimate(&info, &ClientCatalog::new(paths, &MdpLimits::default()).unwrap(), bytes)
    }

    #[test]
    fn the_estimate_follows_memory_not_message_size() {
        let client = |metadata: Value, paths: Value| {
            memory_size(json!({"id": "c", "name": "C", "metadata": metadata, "paths": paths}))
        };
        let small = client(json!({}), json!([{"type": "skill", "path": "/a/skill.md"}]));
        assert!((1000..5000).contains(&small), "{small}");
        let values = client(json!({"x": vec![json!({}); 1000]}), json!([]));
        assert!(values >= 1000 * size_of::<Value>(), "{values}");
    }

    #[test]
    fn no_part_of_a_client_may_be_too_large_for_a_listing() {
        let of = |client: Value| {
            let ClientDescriptor { info, paths } = ClientDescriptor::parse(client).unwrap();
            let limits = MdpLimits::default();
            check(&info, &ClientCatalog::new(paths, &limits).unwrap(), 0, &limits)
        };
        let nested: Vec<Value> = vec![json!([0]); 20_000];
        let (metadata, paths) = (json!({ "x": nested }), json!([]));
        let heavy = json!({"id": "c", "name": "C", "metadata": metadata, "paths": paths});
        assert_eq!(of(heavy).unwrap_err().code().as_str(), "catalog_too_large");
        let path = json!({"type": "skill", "path": "/a/skill.md", "x": nested});
        let heavy = json!({"id": "c", "name": "C", "paths": [path]});
        assert_eq!(of(heavy).unwrap_err().code().as_str(), "catalog_too_large");
    }

    #[test]
    fn a_deep_path_counts_one_node_per_segment() {
        let deep = |number: usize| {
            let path = format!("/s{number}{}", "/a".repeat(31));
            Descriptor::new(DescriptorKind::Endpoint(Method::Get), path)
        };
        let catalog =
            ClientCatalog::new((0..100).map(deep).collect(), &MdpLimits::default()).unwrap();
        let info = ClientInfo::new("c", "C");
        assert!(estimate(&info, &catalog, 0) > 100 * 32 * NODE_BYTES);
    }
}
