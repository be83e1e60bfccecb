//! TCP proxy before PostgreSQL that drops notifications, as some poolers do, or refuses connections.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Kind of the message that carries a notification.
const NOTIFICATION: u8 = b'A';

#[derive(Default)]
struct State {
    is_cut: AtomicBool,
    drops_notifications: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

/// Proxy on a port of its own. Connections without TLS only.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: Arc<State>,
}

impl Proxy {
    pub(crate) fn start(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::<State>::default();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.is_cut.load(Ordering::SeqCst) {
                    continue;
                }
                let server = TcpStream::connect(("127.0.0.1", target)).unwrap();
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                    shared.open.lock().unwrap().push(stream.try_clone().unwrap());
                }
                let (to_server, to_client) =
                    (server.try_clone().unwrap(), client.try_clone().unwrap());
                let state = Arc::clone(&shared);
                thread::spawn(move || close(&client, &to_server, copy(&client, &to_server)));
                thread::spawn(move || {
                    let copied = copy_messages(&server, &to_client, &state);
                    close(&server, &to_client, copied);
                });
            }
        });
        Self { port, state }
    }

    /// Drops all notifications from now on, or no more.
    pub(crate) fn drop_notifications(&self, drops: bool) {
        self.state.drops_notifications.store(drops, Ordering::SeqCst);
    }

    /// Ends all connections and refuses new ones, until [`heal`](Self::heal).
    pub(crate) fn cut(&self) {
        self.state.is_cut.store(true, Ordering::SeqCst);
        for stream in self.state.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn heal(&self) {
        self.state.is_cut.store(false, Ordering::SeqCst);
    }
}

fn close(from: &TcpStream, to: &TcpStream, _ended: io::Result<()>) {
    for stream in [from, to] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    let mut buffer = [0; 1 << 16];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            count => to.write_all(&buffer[..count])?,
        }
    }
}

/// Passes the messages of the server on, many at a time.
fn copy_messages(mut from: &TcpStream, mut to: &TcpStream, state: &State) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    let mut pending = Vec::new();
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        pending.extend_from_slice(&buffer[..count]);
        let (mut passed, mut at) = (Vec::with_capacity(pending.len()), 0);
        while let Some(length) = pending.get(at + 1..at + 5) {
            let end =
                at + 1 + u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
            if end > pending.len() {
                break;
            }
            let drops = state.drops_notifications.load(Ordering::SeqCst);
            if !(drops && pending[at] == NOTIFICATION) {
                passed.extend_from_slice(&pending[at..end]);
            }
            at = end;
        }
        pending.drain(..at);
        to.write_all(&passed)?;
    }
}
