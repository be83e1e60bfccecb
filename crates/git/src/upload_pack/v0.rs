//! Protocol versions 0 and 1 over stateless requests: each repeats what was said before.

use super::{
    AGENT, CommitGraph, Dialect, Fetch, Outcome, Request, SideBand, Version, key_value, object_id,
    plan::History,
};
use crate::{
    ObjectId, Packet, ProtocolError,
    pkt_line::{Packets, quoted, write_flush, write_frame, write_line},
};

/// Form of acknowledgements that a client asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acks {
    /// One for the first common commit.
    Single,
    /// One for each common commit.
    Multi,
    /// One for each common commit, with its meaning.
    Detailed,
}

const CAPABILITIES: &str = "multi_ack multi_ack_detailed no-done side-band side-band-64k thin-pack \
     ofs-delta shallow deepen-since deepen-not deepen-relative no-progress include-tag \
     allow-tip-sha1-in-want allow-reachable-sha1-in-want object-format=sha1";

pub(super) fn advertisement(version: Version, graph: &dyn CommitGraph) -> Vec<u8> {
    let mut body = Vec::new();
    write_line(&mut body, "# service=git-upload-pack");
    write_flush(&mut body);
    if version == Version::V1 {
        write_line(&mut body, "version 1");
    }
    let (references, head) = (graph.references(), graph.head());
    let target = references.iter().find(|reference| reference.name == head);
    let symref = if target.is_some() { format!(" symref=HEAD:{head}") } else { String::new() };
    let mut capabilities = Some(format!("\0{CAPABILITIES}{symref} {AGENT}"));
    let mut write = |id: &ObjectId, name: &str| {
        let capabilities = capabilities.take().unwrap_or_default();
        let line = format!("{id} {name}");
        write_frame(&mut body, &[line.as_bytes(), capabilities.as_bytes(), b"\n"]);
    };
    if let Some(target) = target {
        write(&target.id, "HEAD");
    }
    for reference in &references {
        write(&reference.id, &reference.name);
    }
    if references.is_empty() {
        write(&ObjectId::ZERO, "capabilities^{}");
    }
    write_flush(&mut body);
    body
}

pub(super) fn parse(body: &[u8]) -> Result<Request<'_>, ProtocolError> {
    let mut fetch = Fetch::default();
    let (mut acks, mut no_done, mut side_band) = (Acks::Single, false, SideBand::None);
    for packet in Packets::new(body) {
        let line = match packet? {
            Packet::Line(line) => line,
            // Flushes separate wants and rounds of haves; `done` is what ends a request.
            Packet::Flush => continue,
            Packet::Delimiter => return Err(ProtocolError::unexpected("delimiter")),
        };
        let (key, value) = key_value(line);
        if key != "want" {
            if !fetch.read_shared(key, value)? {
                return Err(ProtocolError::unexpected(line));
            }
            continue;
        }
        let (id, capabilities) = key_value(value);
        let is_first = fetch.wants.is_empty();
        fetch.wants.insert(object_id(id)?);
        for capability in capabilities.split(' ').filter(|_| is_first) {
            match capability {
                "multi_ack_detailed" => acks = Acks::Detailed,
                "multi_ack" if acks == Acks::Single => acks = Acks::Multi,
                "no-done" => no_done = true,
                "side-band-64k" => side_band = SideBand::Large,
                "side-band" if side_band == SideBand::None => side_band = SideBand::Small,
                "thin-pack" => fetch.is_thin = true,
                "deepen-relative" => fetch.deepen.is_relative = true,
                _ => match capability.strip_prefix("object-format=") {
                    Some(format) if format != "sha1" => {
                        return Err(ProtocolError::ObjectFormat(quoted(format)));
                    }
                    _ => {}
                },
            }
        }
    }
    if fetch.wants.is_empty() {
        return Ok(Request::Nothing);
    }
    fetch.dialect = Dialect::V0 { acks, no_done, side_band };
    Ok(Request::Fetch(Box::new(fetch)))
}

pub(super) fn respond(
    fetch: &Fetch<'_>,
    common: Vec<ObjectId>,
    history: History,
    acks: Acks,
    no_done: bool,
    side_band: SideBand,
) -> Outcome {
    let mut head = Vec::new();
    if fetch.deepen.is_requested() {
        for id in &history.shallow {
            write_line(&mut head, &format!("shallow {id}"));
        }
        for id in &history.unshallow {
            write_line(&mut head, &format!("unshallow {id}"));
        }
        write_flush(&mut head);
    }
    // A request for the boundaries alone has no haves yet.
    if fetch.haves.is_empty() && !fetch.is_done && fetch.deepen.is_requested() {
        return Outcome::Reply(head);
    }
    let last = common.last().copied();
    match acks {
        Acks::Single => {
            if let Some(first) = common.first() {
                write_line(&mut head, &format!("ACK {first}"));
            }
        }
        Acks::Multi | Acks::Detailed => {
            let meaning = if acks == Acks::Multi { "continue" } else { "common" };
            for id in &common {
                write_line(&mut head, &format!("ACK {id} {meaning}"));
            }
        }
    }
    let is_ready = acks == Acks::Detailed && history.is_ready && last.is_some();
    if !fetch.is_done {
        if is_ready && let Some(last) = last {
            write_line(&mut head, &format!("ACK {last} ready"));
        }
        if acks != Acks::Single || common.is_empty() {
            write_line(&mut head, "NAK");
        }
        if !(no_done && is_ready) {
            return Outcome::Reply(head);
        }
    }
    match last {
        Some(last) if acks != Acks::Single => write_line(&mut head, &format!("ACK {last}")),
        Some(_) => {}
        None => write_line(&mut head, "NAK"),
    }
    let (commits, had, is_thin) = (history.commits, history.had, fetch.is_thin);
    Outcome::Pack { head, commits, had, is_thin, side_band }
}
