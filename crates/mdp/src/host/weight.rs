//! About how much memory a client takes, which is far more than what it sent: a path of few bytes is a node of the
//! tree for each of its segments, and a value of two bytes a tree of its own. Better too much than too little.

use std::mem::size_of;

use serde_json::{Map, Value};

use super::Catalog;
use crate::wire::{ClientInfo, Descriptor};

/// A node of the tree of segments, with its name in the node above.
const NODE: usize = 256;
/// A path, with what the registry makes of it.
const PATH: usize = 1024;
/// How often a text is kept: as it came, and in what is listed and searched.
const COPIES: usize = 4;
/// A value, in a list that has grown to twice what it holds.
const VALUE: usize = 2 * size_of::<Value>();
/// What a field takes beside its value and its name.
const FIELD: usize = 64;

/// The weight of a client that was described in so many bytes.
pub(super) fn of(info: &ClientInfo, catalog: &Catalog, bytes: usize) -> usize {
    let paths = catalog.descriptors();
    bytes * COPIES
        + catalog.nodes() * NODE
        + paths.len() * PATH
        + info.metadata.as_ref().map_or(0, fields)
        + fields(&info.extra)
        + paths.iter().map(path).sum::<usize>()
}

fn path(descriptor: &Descriptor) -> usize {
    let Descriptor { input_schema, output_schema, extra, .. } = descriptor;
    let schemas = [input_schema, output_schema].into_iter().flatten();
    schemas.chain([extra]).map(fields).sum()
}

fn fields(fields: &Map<String, Value>) -> usize {
    fields.values().map(|value| FIELD + self::value(value)).sum()
}

fn value(value: &Value) -> usize {
    VALUE
        + match value {
            Value::Array(values) => values.iter().map(self::value).sum(),
            Value::Object(map) => fields(map),
            _ => 0,
        }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        Limits,
        wire::{ClientDescriptor, Kind, Method},
    };

    fn weight(client: Value) -> usize {
        let bytes = client.to_string().len();
        let ClientDescriptor { info, paths } = ClientDescriptor::read(client).unwrap();
        of(&info, &Catalog::new(paths, &Limits::default()).unwrap(), bytes)
    }

    #[test]
    fn what_is_small_on_the_wire_and_large_in_memory_counts_as_large() {
        let client = |metadata: Value, paths: Value| {
            weight(json!({"id": "c", "name": "C", "metadata": metadata, "paths": paths}))
        };
        let small = client(json!({}), json!([{"type": "skill", "path": "/a/skill.md"}]));
        assert!((1000..5000).contains(&small), "{small}");
        let values = client(json!({"x": vec![json!({}); 1000]}), json!([]));
        assert!(values >= 1000 * size_of::<Value>(), "{values}");
    }

    #[test]
    fn a_deep_path_weighs_a_node_for_each_segment() {
        let deep = |number: usize| {
            let path = format!("/s{number}{}", "/a".repeat(31));
            Descriptor::new(Kind::Endpoint(Method::Get), path)
        };
        let catalog = Catalog::new((0..100).map(deep).collect(), &Limits::default()).unwrap();
        let info = ClientInfo::new("c", "C");
        assert!(of(&info, &catalog, 0) > 100 * 32 * NODE);
    }
}
