//! Protocol version 2: commands with sections.

use super::{
    AGENT, CommitGraph, Fetch, Outcome, Request, SideBand, key_value, object_id, plan::History,
};
use crate::{
    ObjectId, Packet, ProtocolError,
    pkt_line::{Packets, quoted, write_delimiter, write_flush, write_line},
};

/// Most prefixes of refs that a request may name.
const MAX_PREFIXES: usize = 1024;

pub(super) fn capabilities() -> Vec<u8> {
    let mut body = Vec::new();
    // No `filter`: git then fetches whole trees, with a warning.
    for line in ["version 2", AGENT, "ls-refs=unborn", "fetch=shallow", "object-format=sha1"] {
        write_line(&mut body, line);
    }
    write_flush(&mut body);
    body
}

pub(super) fn parse<'a>(
    body: &'a [u8],
    graph: &dyn CommitGraph,
) -> Result<Request<'a>, ProtocolError> {
    let mut packets = Packets::new(body);
    let mut command = None;
    loop {
        match packets.next().transpose()? {
            None | Some(Packet::Flush) if command.is_none() => return Ok(Request::Nothing),
            None | Some(Packet::Flush | Packet::Delimiter) => break,
            Some(Packet::Line(line)) => match line.split_once('=') {
                Some(("command", name)) => command = Some(name),
                Some(("object-format", format)) if format != "sha1" => {
                    return Err(ProtocolError::ObjectFormat(quoted(format)));
                }
                // Capabilities of the client: agent, server-option.
                _ => {}
            },
        }
    }
    match command {
        Some("ls-refs") => list_references(packets, graph).map(Request::References),
        Some("fetch") => parse_fetch(packets).map(|fetch| Request::Fetch(Box::new(fetch))),
        other => Err(ProtocolError::Command(quoted(other.unwrap_or_default()))),
    }
}

fn list_references(
    packets: Packets<'_>,
    graph: &dyn CommitGraph,
) -> Result<Vec<u8>, ProtocolError> {
    let (mut prefixes, mut symrefs, mut unborn) = (Vec::new(), false, false);
    for packet in packets {
        let line = match packet? {
            Packet::Line(line) => line,
            Packet::Flush => break,
            Packet::Delimiter => return Err(ProtocolError::unexpected("delimiter")),
        };
        match key_value(line) {
            ("symrefs", _) => symrefs = true,
            ("unborn", _) => unborn = true,
            // More prefixes than these list everything, as git does.
            ("ref-prefix", prefix) if prefixes.len() <= MAX_PREFIXES => prefixes.push(prefix),
            // No tag here is an object of its own, so there is nothing to peel.
            _ => {}
        }
    }
    let is_listed = |name: &str| {
        prefixes.is_empty()
            || prefixes.len() > MAX_PREFIXES
            || prefixes.iter().any(|prefix| name.starts_with(prefix))
    };
    let (references, head) = (graph.references(), graph.head());
    let symref = if symrefs { format!(" symref-target:{head}") } else { String::new() };
    let mut body = Vec::new();
    if is_listed("HEAD") {
        match references.iter().find(|reference| reference.name == head) {
            Some(reference) => write_line(&mut body, &format!("{} HEAD{symref}", reference.id)),
            None if unborn => write_line(&mut body, &format!("unborn HEAD{symref}")),
            None => {}
        }
    }
    for reference in references.iter().filter(|reference| is_listed(&reference.name)) {
        write_line(&mut body, &format!("{} {}", reference.id, reference.name));
    }
    write_flush(&mut body);
    Ok(body)
}

fn parse_fetch(packets: Packets<'_>) -> Result<Fetch<'_>, ProtocolError> {
    let mut fetch = Fetch::default();
    for packet in packets {
        let line = match packet? {
            Packet::Line(line) => line,
            Packet::Flush => break,
            Packet::Delimiter => return Err(ProtocolError::unexpected("delimiter")),
        };
        let (key, value) = key_value(line);
        match key {
            "want" => fetch.wants.insert(object_id(value)?),
            "want-ref" => {
                fetch.want_refs.insert(value);
            }
            "thin-pack" => fetch.is_thin = true,
            "no-progress" | "include-tag" | "ofs-delta" | "sideband-all" | "wait-for-done" => {}
            _ if fetch.read_shared(key, value)? => {}
            _ => return Err(ProtocolError::unexpected(line)),
        }
    }
    Ok(fetch)
}

pub(super) fn respond(fetch: &Fetch<'_>, common: Vec<ObjectId>, history: History) -> Outcome {
    let mut head = Vec::new();
    if !fetch.is_done {
        write_line(&mut head, "acknowledgments");
        if common.is_empty() {
            write_line(&mut head, "NAK");
        }
        for id in &common {
            write_line(&mut head, &format!("ACK {id}"));
        }
        // A request without haves gets the pack only after `done`.
        if common.is_empty() || !history.is_ready {
            write_flush(&mut head);
            return Outcome::Reply(head);
        }
        write_line(&mut head, "ready");
        write_delimiter(&mut head);
    }
    if fetch.deepen.is_requested() {
        write_line(&mut head, "shallow-info");
        for id in &history.shallow {
            write_line(&mut head, &format!("shallow {id}"));
        }
        for id in &history.unshallow {
            write_line(&mut head, &format!("unshallow {id}"));
        }
        write_delimiter(&mut head);
    }
    write_line(&mut head, "packfile");
    let (commits, had, is_thin) = (history.commits, history.had, fetch.is_thin);
    Outcome::Pack { head, commits, had, is_thin, side_band: SideBand::Large }
}
