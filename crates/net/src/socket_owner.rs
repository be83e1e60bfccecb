//! Owner of the socket at the other end of a loopback connection, from the kernel of Linux: by `sock_diag`, which finds one
//! socket in constant time, or where that is not allowed from the tables in `/proc`.
//!
//! Both ends of a connection over loopback have a row in the table of the network namespace, with the user and the inode
//! of the socket. A socket that no process holds has the inode 0 and, depending on the kernel, the user 0: one that its
//! process closed already, or one that waits to be accepted. Such a row names no owner.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
};

/// Folder with the socket tables of the network namespace of this process.
const TABLES: &str = "/proc/self/net";
/// Table of IPv4 sockets.
const TABLE_V4: &str = "tcp";
/// Table of IPv6 sockets, with the IPv4 connections of a dual-stack socket as mapped addresses.
const TABLE_V6: &str = "tcp6";
/// Most bytes that are read of a table, about 100,000 sockets. A row beyond them names no owner.
const MAX_TABLE_BYTES: u64 = 16 * 1024 * 1024;
/// Longest row that is read; the kernel writes shorter ones.
const MAX_ROW_BYTES: usize = 1024;
/// User id that the kernel shows for users that the user namespace does not map, unless it is configured.
const DEFAULT_OVERFLOW_UID: u32 = 65_534;

/// Most readings of the tables, of which two in a row have to agree. The kernel does not write a table at one moment: a row
/// can be missing from one that changes meanwhile, and that of a socket which is being closed may have the inode of its
/// process and the user 0 already.
const READS: u32 = 3;

/// Socket at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerSocket {
    /// A process of the user with this id holds it.
    Held(u32),
    /// No process holds it: it waits to be accepted, or is closed already.
    Unheld,
    /// It is on another machine, in another network namespace or of a user without an id in this user namespace, or the
    /// system has no such tables, as macOS.
    Unknown,
}

impl PeerSocket {
    /// Returns the user id of the process that holds the socket.
    const fn owner(self) -> Option<u32> {
        match self {
            Self::Held(owner) => Some(owner),
            Self::Unheld | Self::Unknown => None,
        }
    }
}

/// Returns the user id of the process that holds the socket at the other end of a connection: the socket whose local
/// address is `peer` and whose remote address is `local`. `None` if the user is not known; callers grant nothing then.
///
/// The answer is about the connection, not about the listener, which may be shared or replaced meanwhile. It holds as
/// long as the caller holds its end: afterwards the addresses may be those of another connection.
///
/// Reads files of the kernel, which takes longer with many sockets: call it once for a connection, not on a thread of
/// the runtime.
#[must_use]
pub fn owner_of_peer(local: SocketAddr, peer: SocketAddr) -> Option<u32> {
    peer_socket(local, peer).owner()
}

/// Returns the owners of the other ends of several connections, each given as the local and the peer's address, from
/// the same readings of the tables. The rules are those of [`owner_of_peer`].
#[must_use]
pub fn owners_of_peers(connections: &[(SocketAddr, SocketAddr)]) -> Vec<Option<u32>> {
    peer_sockets(connections).into_iter().map(PeerSocket::owner).collect()
}

/// Returns the socket at the other end of a connection, see [`owner_of_peer`].
#[must_use]
pub fn peer_socket(local: SocketAddr, peer: SocketAddr) -> PeerSocket {
    peer_sockets(&[(local, peer)]).pop().unwrap_or(PeerSocket::Unknown)
}

/// Reads the tables until two readings agree.
fn peer_sockets(connections: &[(SocketAddr, SocketAddr)]) -> Vec<PeerSocket> {
    let read = || {
        let found = sock_diag::find(connections);
        found.unwrap_or_else(|_| find_in_tables(Path::new(TABLES), connections))
    };
    let (mut before, mut sockets) = (read(), vec![None; connections.len()]);
    for _ in 1..READS {
        let now = read();
        for (socket, (before, now)) in sockets.iter_mut().zip(before.iter().zip(&now)) {
            *socket = socket.or(now.filter(|_| now == before));
        }
        if now == before {
            break;
        }
        before = now;
    }
    let unmapped = (!maps_all_users()).then(overflow_uid);
    let is_known = |socket: &PeerSocket| socket.owner().is_none_or(|it| Some(it) != unmapped);
    let known = |socket: Option<PeerSocket>| socket.filter(is_known).unwrap_or(PeerSocket::Unknown);
    sockets.into_iter().map(known).collect()
}

/// Returns whether a user id is the one of this process, or the administrator of the system, who can act as every user.
#[must_use]
pub fn is_own_or_root(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

/// Lookup of single sockets by netlink.
#[cfg(target_os = "linux")]
mod sock_diag {
    use std::{
        io,
        net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    };

    use rustix::net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send,
        socket_with,
    };

    use super::{PeerSocket, canonical};

    /// Bytes of the header of a message.
    const HEADER: usize = 16;
    /// Bytes of a request: header, family, protocol, states, socket.
    const REQUEST: usize = HEADER + 8 + 48;
    /// Type of requests and answers (`SOCK_DIAG_BY_FAMILY`).
    const BY_FAMILY: u16 = 20;
    /// Type of errors.
    const ERROR: u16 = 2;
    /// Flag of a request.
    const IS_REQUEST: u16 = 1;
    /// Error number of a socket that does not exist.
    const NOT_FOUND: i32 = 2;
    // Numbers of the address families, and of the protocol TCP.
    const INET: u8 = 2;
    const INET6: u8 = 10;
    const TCP: u8 = 6;

    /// Returns the sockets at the other ends of connections; `None` for one that does not exist.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub(super) fn find(
        connections: &[(SocketAddr, SocketAddr)],
    ) -> io::Result<Vec<Option<PeerSocket>>> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::DGRAM);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
        let mut answer = [0; 512];
        let mut find_one = |(local, peer): &(SocketAddr, SocketAddr)| {
            let request = request(canonical(*peer), canonical(*local));
            send(&socket, &request, SendFlags::empty())?;
            // The kernel answers before the call returns.
            let (length, _) = recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
            parse(&answer[..length], (canonical(*peer), canonical(*local)))
        };
        connections.iter().map(&mut find_one).collect()
    }

    /// Returns a request for the socket with a local and a remote address.
    fn request(local: SocketAddr, remote: SocketAddr) -> [u8; REQUEST] {
        let mut request = [0; REQUEST];
        let mut put =
            |at: usize, bytes: &[u8]| request[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &(REQUEST as u32).to_ne_bytes());
        put(4, &BY_FAMILY.to_ne_bytes());
        put(6, &IS_REQUEST.to_ne_bytes());
        put(16, &[if local.is_ipv4() { INET } else { INET6 }, TCP]);
        // All states.
        put(20, &[0xff; 4]);
        put(24, &local.port().to_be_bytes());
        put(26, &remote.port().to_be_bytes());
        for (at, ip) in [(28, local.ip()), (44, remote.ip())] {
            match ip {
                IpAddr::V4(ip) => put(at, &ip.octets()),
                IpAddr::V6(ip) => put(at, &ip.octets()),
            }
        }
        // No cookie.
        put(64, &[0xff; 8]);
        request
    }

    /// Parses an answer. Without a connection the kernel finds the listener of the port, which is another socket.
    fn parse(
        answer: &[u8],
        (local, remote): (SocketAddr, SocketAddr),
    ) -> io::Result<Option<PeerSocket>> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let number = |at: usize| {
            let bytes = answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u32::from_ne_bytes).ok_or_else(invalid)
        };
        let address = |port: usize, ip: usize| {
            let port = u16::from_be_bytes(answer.get(port..port + 2)?.try_into().ok()?);
            let bytes: [u8; 16] = answer.get(ip..ip + 16)?.try_into().ok()?;
            let ip: IpAddr = match (answer[16], bytes) {
                (INET, [a, b, c, d, ..]) => Ipv4Addr::new(a, b, c, d).into(),
                _ => Ipv6Addr::from(bytes).into(),
            };
            Some(canonical(SocketAddr::new(ip, port)))
        };
        let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok());
        match kind.map(u16::from_ne_bytes).ok_or_else(invalid)? {
            ERROR if number(HEADER)?.cast_signed() == -NOT_FOUND => Ok(None),
            BY_FAMILY => {
                let (owner, inode) = (number(80)?, number(84)?);
                let is_same = address(20, 24) == Some(local) && address(22, 40) == Some(remote);
                let held = if inode == 0 { PeerSocket::Unheld } else { PeerSocket::Held(owner) };
                Ok(is_same.then_some(held))
            }
            _ => Err(invalid()),
        }
    }
}

/// Lookup of single sockets, which other systems do not have.
#[cfg(not(target_os = "linux"))]
mod sock_diag {
    use std::{io, net::SocketAddr};

    use super::PeerSocket;

    pub(super) fn find(_: &[(SocketAddr, SocketAddr)]) -> io::Result<Vec<Option<PeerSocket>>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Returns what the tables say of each connection; `None` without a row.
fn find_in_tables(
    tables: &Path,
    connections: &[(SocketAddr, SocketAddr)],
) -> Vec<Option<PeerSocket>> {
    let mut found = HashMap::new();
    for (local, peer) in connections {
        found.insert((canonical(*peer), canonical(*local)), None);
    }
    let has_v4 = connections.iter().any(|(_, peer)| canonical(*peer).is_ipv4());
    for name in if has_v4 { &[TABLE_V4, TABLE_V6][..] } else { &[TABLE_V6] } {
        if let Ok(table) = File::open(tables.join(name)) {
            // The rows before an error count.
            let _ = find_rows(BufReader::new(table.take(MAX_TABLE_BYTES)), &mut found);
        }
    }
    let socket = |(local, peer): &(SocketAddr, SocketAddr)| {
        found.get(&(canonical(*peer), canonical(*local))).copied().flatten()
    };
    connections.iter().map(socket).collect()
}

/// Searches a table for sockets by their local and remote addresses. The first one that a process holds counts: the
/// addresses of a closed connection can be used again.
fn find_rows(
    mut table: impl BufRead,
    found: &mut HashMap<(SocketAddr, SocketAddr), Option<PeerSocket>>,
) -> io::Result<()> {
    let mut row = Vec::new();
    loop {
        row.clear();
        let count = table.by_ref().take(MAX_ROW_BYTES as u64).read_until(b'\n', &mut row)?;
        if count == 0 {
            return Ok(());
        }
        let parsed = std::str::from_utf8(&row).ok().and_then(Row::parse);
        if let Some(Row { local, remote, owner, inode }) = parsed
            && let Some(socket @ (None | Some(PeerSocket::Unheld))) =
                found.get_mut(&(local, remote))
        {
            let held = (inode != 0).then_some(PeerSocket::Held(owner));
            *socket = Some(held.unwrap_or(PeerSocket::Unheld));
        }
    }
}

/// Socket of a table.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    local: SocketAddr,
    remote: SocketAddr,
    owner: u32,
    /// 0 if no process holds the socket.
    inode: u64,
}

impl Row {
    /// Parses a row; `None` for the heading.
    fn parse(text: &str) -> Option<Self> {
        // sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode …
        let mut columns = text.split_ascii_whitespace().skip(1);
        let local = parse_address(columns.next()?)?;
        let remote = parse_address(columns.next()?)?;
        let mut columns = columns.skip(4);
        let owner = columns.next()?.parse().ok()?;
        let inode = columns.nth(1)?.parse().ok()?;
        Some(Self { local, remote, owner, inode })
    }
}

/// Parses an address of a table: its bytes as 32-bit words in the byte order of the machine, and the port.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = [0; 16];
    let words = ip.as_bytes().chunks(8);
    let count = words.len();
    for (word, bytes) in words.zip(bytes.chunks_mut(4)) {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    let ip: IpAddr = match (ip.len(), count) {
        (8, 1) => Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into(),
        (32, 4) => Ipv6Addr::from(bytes).into(),
        _ => return None,
    };
    Some(canonical(SocketAddr::new(ip, port)))
}

/// Returns an address with a mapped IPv4 address as itself, and without a flow or a scope.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Returns the user id that stands for users that the user namespace does not map.
fn overflow_uid() -> u32 {
    let configured = fs::read_to_string("/proc/sys/kernel/overflowuid").ok();
    configured.and_then(|text| text.trim().parse().ok()).unwrap_or(DEFAULT_OVERFLOW_UID)
}

/// Returns whether the user namespace of this process maps every user to itself, as the first one does.
fn maps_all_users() -> bool {
    fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|map| map.split_ascii_whitespace().eq(["0", "0", "4294967295"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADING: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// Writes an address as the kernel does.
    fn hex(text: &str) -> String {
        let address = address(text);
        let bytes = match address.ip() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        let words = bytes.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap()));
        let words: String = words.map(|word| format!("{word:08X}")).collect();
        format!("{words}:{:04X}", address.port())
    }

    fn row(local: &str, remote: &str, state: &str, owner: u32, inode: u64) -> String {
        format!(
            "   1: {} {} {state} 00000000:00000000 00:00000000 00000000 {owner:5}        0 {inode} 1 000000006f4c201f 20 0 0 10 -1\n",
            hex(local),
            hex(remote),
        )
    }

    fn tables(v4: &[String], v6: &[String]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, rows) in [(TABLE_V4, v4), (TABLE_V6, v6)] {
            fs::write(dir.path().join(name), format!("{HEADING}\n{}", rows.concat())).unwrap();
        }
        dir
    }

    const SERVER: &str = "127.0.0.1:49134";
    const CLIENT: &str = "127.0.0.1:52848";

    fn owner_in(tables: &tempfile::TempDir, local: &str, peer: &str) -> Option<u32> {
        let found = find_in_tables(tables.path(), &[(address(local), address(peer))]).pop();
        found.flatten().and_then(PeerSocket::owner)
    }

    #[test]
    fn the_owner_is_that_of_the_connection_and_not_of_its_listener() {
        let rows = [
            row(SERVER, "0.0.0.0:0", "0A", 0, 1),
            row(SERVER, "127.0.0.1:52849", "01", 1, 2),
            row("127.0.0.1:49135", CLIENT, "01", 2, 3),
            row("127.0.0.2:49134", CLIENT, "01", 3, 4),
            row(CLIENT, SERVER, "01", 1000, 5),
            row(SERVER, CLIENT, "01", 65_534, 6),
        ];
        let tables = tables(&rows, &[]);
        assert_eq!(owner_in(&tables, CLIENT, SERVER), Some(65_534));
        assert_eq!(owner_in(&tables, SERVER, CLIENT), Some(1000));
        assert_eq!(owner_in(&tables, "127.0.0.1:1", SERVER), None, "no such connection");
    }

    #[test]
    fn a_socket_that_no_process_holds_has_no_owner() {
        for (situation, state) in [
            ("not accepted", "01"),
            ("handshake", "03"),
            ("closed", "05"),
            ("closed on both ends", "06"),
        ] {
            let tables = tables(&[row(SERVER, CLIENT, state, 0, 0)], &[]);
            let found = find_in_tables(tables.path(), &[(address(CLIENT), address(SERVER))]);
            assert_eq!(found, [Some(PeerSocket::Unheld)], "{situation}");
        }
        let rows = [row(SERVER, CLIENT, "06", 0, 0), row(SERVER, CLIENT, "01", 1000, 7)];
        assert_eq!(owner_in(&tables(&rows, &[]), CLIENT, SERVER), Some(1000));
    }

    #[test]
    fn mapped_addresses_are_those_of_version_4() {
        let (server, client) = ("[::ffff:127.0.0.1]:49134", "[::ffff:127.0.0.1]:52848");
        let tables_v6 = tables(&[], &[row(server, client, "01", 1000, 5)]);
        let tables_v4 = tables(&[row(SERVER, CLIENT, "01", 1000, 5)], &[]);
        for (local, peer) in [(CLIENT, SERVER), (client, server), (client, SERVER)] {
            assert_eq!(owner_in(&tables_v6, local, peer), Some(1000), "{local} {peer}");
            assert_eq!(owner_in(&tables_v4, local, peer), Some(1000), "{local} {peer}");
        }
    }

    #[test]
    fn addresses_of_version_6_are_found() {
        let (server, client) = ("[::1]:49134", "[::1]:52848");
        let tables = tables(&[], &[row(server, client, "01", 1000, 5)]);
        assert_eq!(owner_in(&tables, client, server), Some(1000));
        assert_eq!(owner_in(&tables, CLIENT, SERVER), None);
    }

    #[test]
    fn an_unreadable_table_names_no_owner() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(owner_in(&dir, CLIENT, SERVER), None, "no tables");
        let row = row(SERVER, CLIENT, "01", 1000, 5);
        let cut = row.split(" 1000 ").next().unwrap();
        let invalid =
            ["\n", "a b c d e f g h i j k\n", "1: 0100007F 0100007F:1\n", cut, "1: \u{e9}"];
        fs::write(dir.path().join(TABLE_V4), invalid.concat()).unwrap();
        assert_eq!(owner_in(&dir, CLIENT, SERVER), None);
    }

    #[test]
    fn a_long_table_is_read_in_part() {
        let mut table = "x".repeat(MAX_TABLE_BYTES as usize);
        table.push('\n');
        table.push_str(&row(SERVER, CLIENT, "01", 1000, 5));
        let dir = tables(&[table], &[]);
        assert_eq!(owner_in(&dir, CLIENT, SERVER), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn both_ends_of_a_connection_belong_to_this_user() {
        use std::net::{TcpListener, TcpStream};

        let own = Some(rustix::process::geteuid().as_raw());
        for bound in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(bound) else { continue };
            let at = listener.local_addr().unwrap();
            let called = if bound == "[::]:0" {
                SocketAddr::new(Ipv4Addr::LOCALHOST.into(), at.port())
            } else {
                at
            };
            let client = TcpStream::connect(called).unwrap();
            let (local, peer) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            assert_eq!(peer_socket(local, peer), PeerSocket::Unheld, "{bound}: not accepted yet");
            assert_eq!(owner_of_peer(local, peer), None, "{bound}: not accepted yet");
            let (server, seen) = listener.accept().unwrap();
            assert_eq!(owner_of_peer(local, peer), own, "{bound}");
            let tables = find_in_tables(Path::new(TABLES), &[(local, peer)]);
            if let Ok(found) = sock_diag::find(&[(local, peer), (at, at)]) {
                assert_eq!(found, [tables[0], None], "{bound}");
            }
            assert_eq!(owner_of_peer(server.local_addr().unwrap(), seen), own, "{bound}");
            drop(client);
            assert_eq!(owner_of_peer(server.local_addr().unwrap(), seen), None, "{bound}: closed");
        }
    }
}
