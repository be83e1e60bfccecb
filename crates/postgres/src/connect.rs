//! Opening of connections on the pool's runtime.

use std::{
    future::poll_fn,
    hash::{BuildHasher as _, RandomState},
    pin::pin,
    time::Duration,
};

use futures_util::future::{Either, select};
use tokio::{
    net::lookup_host,
    runtime::Handle,
    task::AbortHandle,
    time::{Instant, timeout},
};
use tokio_postgres::{
    AsyncMessage, Client, Connection, SimpleQueryMessage,
    config::{Host, LoadBalanceHosts, TargetSessionAttrs},
};

use crate::{
    DatabaseUrl, PgError, PoolConfig,
    error::NOT_READ_ONLY,
    stream::{self, PgStream},
    tls::TlsClient,
    url::{HostAddress, KEEPALIVES_COUNT, KEEPALIVES_IDLE, KEEPALIVES_INTERVAL, TCP_USER_TIMEOUT},
};

/// Time that TLS, authentication and the first statement may take beside connecting.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);

/// Settings of the planner. Rows are looked up by keys. A plan that was cached while a table was small must not read the
/// whole table when it has grown, so plans without an index are chosen only where there is no other. They have a cost that
/// would make the database compile them.
const PLANNER: &str = "SET enable_seqscan = off; SET enable_hashjoin = off; \
     SET enable_mergejoin = off; SET jit = off";

/// Opener of connections to one database.
#[derive(Clone)]
pub(crate) struct Connector {
    url: DatabaseUrl,
    tls: TlsClient,
    set_up: String,
    /// Time limit of one host, from looking its name up to the end of the set-up.
    host_limit: Duration,
}

/// Open connection. Its socket is served by a task of the pool's runtime.
pub(crate) struct Connected {
    pub(crate) client: Client,
    pub(crate) task: AbortHandle,
    /// Process id of the backend, which its notifications have.
    pub(crate) backend: i32,
}

/// Connection whose session is prepared, and whose socket is not served yet.
struct Prepared {
    client: Client,
    connection: Connection<PgStream, PgStream>,
    backend: i32,
    is_standby: bool,
}

impl Connector {
    pub(crate) fn new(url: &DatabaseUrl, config: &PoolConfig) -> Result<Self, PgError> {
        let url = url.clone();
        // The server's side has keepalives too: the backend of a client that vanished ends soon.
        let set_up = format!(
            "SET search_path TO \"{}\"; SET client_min_messages = warning; \
             SET statement_timeout = {}; SET lock_timeout = {}; \
             SET idle_in_transaction_session_timeout = {}; SET tcp_user_timeout = {}; \
             SET tcp_keepalives_idle = {}; SET tcp_keepalives_interval = {}; \
             SET tcp_keepalives_count = {KEEPALIVES_COUNT}; {PLANNER}; \
             SELECT pg_backend_pid(), pg_is_in_recovery(), \
             current_setting('transaction_read_only')",
            url.schema(),
            config.statement_timeout.as_millis(),
            config.lock_timeout.as_millis(),
            config.idle_timeout.as_millis(),
            TCP_USER_TIMEOUT.as_millis(),
            KEEPALIVES_IDLE.as_secs(),
            KEEPALIVES_INTERVAL.as_secs(),
        );
        let connect = url.config.get_connect_timeout().copied().unwrap_or_default();
        let host_limit = connect + HANDSHAKE_TIMEOUT;
        Ok(Self { tls: TlsClient::new(&url.tls)?, url, set_up, host_limit })
    }

    /// Returns the time limit of [`connect`](Self::connect).
    pub(crate) fn time_limit(&self) -> Duration {
        self.host_limit * u32::try_from(self.url.hosts.len()).unwrap_or(u32::MAX)
    }

    /// Connects to the first host that works, and prepares the session. `on_message` gets notifications.
    ///
    /// Each host has a time limit of its own for everything, so one that accepts connections and never answers does not
    /// keep the next one from being tried. The addresses of a name share it. Unlike libpq, a host that refuses the login
    /// does not end the search either: another one may have other rules.
    pub(crate) async fn connect(
        &self,
        runtime: &Handle,
        on_message: impl Fn(AsyncMessage) + Send + 'static,
    ) -> Result<Connected, PgError> {
        let (mut failures, mut primary) = (vec![], None);
        for host in self.hosts() {
            let deadline = Instant::now() + self.host_limit;
            let addresses = match within(self.host_limit, self.resolve(&host)).await {
                Ok(addresses) => addresses,
                Err(error) => {
                    failures.push((host.to_string(), error));
                    continue;
                }
            };
            for (left, address) in (1..=addresses.len()).rev().zip(&addresses) {
                let limit = deadline.saturating_duration_since(Instant::now());
                let limit = limit / u32::try_from(left).unwrap_or(u32::MAX);
                match within(limit, self.prepare(address)).await {
                    Ok(prepared) if self.url.prefers_standby && !prepared.is_standby => {
                        primary.get_or_insert(prepared);
                    }
                    Ok(prepared) => return Ok(prepared.serve(runtime, on_message)),
                    Err(error) => {
                        let name = match address.address {
                            Some(ip) if addresses.len() > 1 => format!("{host} at {ip}"),
                            _ => host.to_string(),
                        };
                        failures.push((name, error));
                    }
                }
            }
        }
        match primary {
            Some(prepared) => Ok(prepared.serve(runtime, on_message)),
            None => Err(PgError::of_hosts(failures)),
        }
    }

    /// Returns the hosts in the order in which they are tried.
    fn hosts(&self) -> Vec<HostAddress> {
        let mut hosts = self.url.hosts.clone();
        self.balance(&mut hosts);
        hosts
    }

    /// Shuffles hosts or addresses if the URL has `load_balance_hosts=random`.
    fn balance<T>(&self, items: &mut [T]) {
        if self.url.config.get_load_balance_hosts() == LoadBalanceHosts::Random {
            items.sort_by_cached_key(|_| RandomState::new().hash_one(0));
        }
    }

    /// Returns the addresses of a host.
    async fn resolve(&self, host: &HostAddress) -> Result<Vec<HostAddress>, PgError> {
        let name = match &host.host {
            Host::Tcp(name) if host.address.is_none() => name,
            _ => return Ok(vec![host.clone()]),
        };
        let unknown = |reason: &dyn std::fmt::Display| {
            PgError::Unavailable(format!("cannot resolve {name}: {reason}"))
        };
        let found = lookup_host((name.as_str(), host.port)).await;
        let mut addresses: Vec<HostAddress> = found
            .map_err(|error| unknown(&error))?
            .map(|at| HostAddress { address: Some(at.ip()), ..host.clone() })
            .collect();
        if addresses.is_empty() {
            return Err(unknown(&"it has no address"));
        }
        self.balance(&mut addresses);
        Ok(addresses)
    }

    /// Connects to one address and prepares the session.
    async fn prepare(&self, address: &HostAddress) -> Result<Prepared, PgError> {
        let config = self.url.config_of(address);
        let stream = PgStream::open(address, &config, &self.tls, &self.url.auth).await?;
        let (client, mut connection) = stream::log_in(stream, &config).await?;
        let set_up = {
            let set_up = pin!(client.simple_query(&self.set_up));
            let ended = pin!(serve_until_end(&mut connection));
            match select(set_up, ended).await {
                Either::Left((answer, _)) => answer.map_err(|error| PgError::from_connect(&error)),
                Either::Right((error, _)) => Err(error),
            }
        };
        let answer = set_up?;
        let is_set = |column: usize| ["t", "on"].map(Some).contains(&value_in(&answer, column));
        let (is_standby, is_read_only) = (is_set(1), is_set(2));
        match (config.get_target_session_attrs(), is_read_only) {
            (TargetSessionAttrs::ReadWrite, true) => {
                return Err(PgError::ReadOnly("database does not allow writes".to_owned()));
            }
            (TargetSessionAttrs::ReadOnly, false) => {
                return Err(PgError::Unavailable(NOT_READ_ONLY.to_owned()));
            }
            _ => {}
        }
        let backend = value_in(&answer, 0).and_then(|id| id.parse().ok()).unwrap_or_default();
        Ok(Prepared { client, connection, backend, is_standby })
    }
}

impl Prepared {
    fn serve(
        self,
        runtime: &Handle,
        on_message: impl Fn(AsyncMessage) + Send + 'static,
    ) -> Connected {
        let Self { client, mut connection, backend, .. } = self;
        let serve = async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await
            {
                on_message(message);
            }
        };
        let task = runtime.spawn(serve).abort_handle();
        Connected { client, task, backend }
    }
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, PgError>>,
) -> Result<T, PgError> {
    let late = || format!("no connection within {:.0} s", limit.as_secs_f64().ceil());
    timeout(limit, work).await.unwrap_or_else(|_| Err(PgError::Unavailable(late())))
}

/// Serves a connection until it ends, and returns the reason.
async fn serve_until_end(connection: &mut Connection<PgStream, PgStream>) -> PgError {
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(_)) => {}
            Some(Err(error)) => return PgError::from_connect(&error),
            None => return PgError::Unavailable("the connection was closed".to_owned()),
        }
    }
}

/// Returns a value that the last statement of the set-up selects.
fn value_in(answer: &[SimpleQueryMessage], column: usize) -> Option<&str> {
    answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(column),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::{TcpListener, TcpStream},
        sync::{
            Arc,
            atomic::{AtomicBool, AtomicUsize, Ordering},
            mpsc::{self, Receiver},
        },
        thread,
    };

    use super::*;
    use crate::Pool;

    /// Time limit that a fake server never needs.
    const AMPLE: Duration = Duration::from_secs(600);

    fn listener() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        (listener, address)
    }

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    fn read_message(stream: &mut TcpStream, has_kind: bool) -> Option<Vec<u8>> {
        let mut kind = [0];
        if has_kind {
            stream.read_exact(&mut kind).ok()?;
        }
        let mut length = [0; 4];
        stream.read_exact(&mut length).ok()?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
        stream.read_exact(&mut body).ok()?;
        Some(body)
    }

    const READY: [u8; 6] = *b"Z\0\0\0\x05I";

    /// Reply to the start of a session.
    #[derive(Clone, Copy)]
    enum Login {
        /// The connection is closed without a reply.
        Closed,
        /// An error with an SQLSTATE.
        Refused(&'static str),
        Accepted {
            backend: i32,
            is_standby: bool,
        },
    }

    /// Replies to every statement of a connection as a primary or a standby does.
    fn answer_as(stream: &mut TcpStream, login: Login) -> Option<()> {
        answer_until(stream, login, &AtomicBool::new(false))
    }

    /// Replies to the statements of a connection until it is to be silent.
    fn answer_until(stream: &mut TcpStream, login: Login, is_silent: &AtomicBool) -> Option<()> {
        read_message(stream, false)?;
        let (backend, is_standby) = match login {
            Login::Closed => return None,
            Login::Refused(code) => {
                let fields = format!("SFATAL\0VFATAL\0C{code}\0Mrefused with {code}\0\0");
                stream.write_all(&message(b'E', fields.as_bytes())).ok()?;
                return None;
            }
            Login::Accepted { backend, is_standby } => (backend, is_standby),
        };
        stream.write_all(&[message(b'R', &[0; 4]), READY.to_vec()].concat()).ok()?;
        while read_message(stream, true).is_some() {
            if is_silent.load(Ordering::SeqCst) {
                continue;
            }
            let (standby, read_only) = if is_standby { ("t", "on") } else { ("f", "off") };
            let values = [backend.to_string(), standby.to_owned(), read_only.to_owned()];
            let count = u16::try_from(values.len()).unwrap().to_be_bytes();
            let mut columns = count.to_vec();
            let mut row = count.to_vec();
            for value in &values {
                columns.extend([b'c', 0]);
                columns.extend([0; 18]);
                row.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
                row.extend(value.as_bytes());
            }
            let reply = [
                message(b'T', &columns),
                message(b'D', &row),
                message(b'C', b"SELECT 1\0"),
                READY.to_vec(),
            ];
            stream.write_all(&reply.concat()).ok()?;
        }
        None
    }

    /// Starts a server that replies to every connection in the same way.
    fn server(login: Login) -> String {
        let (listener, address) = listener();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || answer_as(&mut stream, login));
            }
        });
        address
    }

    /// Starts a primary whose connections, numbered from 0, are silent as long as their flag is set.
    fn silenceable_primary(flag: impl Fn(usize) -> Arc<AtomicBool> + Send + 'static) -> String {
        let (listener, address) = listener();
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let (mut stream, is_silent) = (stream.unwrap(), flag(number));
                let login = Login::Accepted { backend: 1, is_standby: false };
                thread::spawn(move || answer_until(&mut stream, login, &is_silent));
            }
        });
        address
    }

    fn primary(backend: i32) -> String {
        server(Login::Accepted { backend, is_standby: false })
    }

    fn standby(backend: i32) -> String {
        server(Login::Accepted { backend, is_standby: true })
    }

    fn connector(hosts: &[&str], parameters: &str, host_limit: Duration) -> Connector {
        let url = format!("postgres://me@{}/x?sslmode=disable{parameters}", hosts.join(","));
        let connector = Connector::new(&url.parse().unwrap(), &PoolConfig::default()).unwrap();
        Connector { host_limit, ..connector }
    }

    /// Returns the backend that is connected to.
    fn connect(connector: &Connector) -> Result<i32, PgError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let connected = runtime.block_on(connector.connect(runtime.handle(), |_| ()));
        connected.map(|connected| connected.backend)
    }

    #[test]
    fn a_host_that_never_answers_does_not_stop_the_search() {
        let (hosts, addresses): (Vec<_>, Vec<_>) = (0..3).map(|_| listener()).unzip();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let error = connect(&connector(&addresses, "", Duration::from_millis(50))).unwrap_err();
        assert_eq!(error, PgError::Unavailable("no connection within 1 s".to_owned()));
        for host in hosts {
            // The system has accepted the connection already, if there was one.
            host.set_nonblocking(true).unwrap();
            host.accept().unwrap();
        }
    }

    #[test]
    fn a_call_that_used_up_its_time_does_not_connect_again() {
        let (connections, is_silent): (Arc<AtomicUsize>, Arc<AtomicBool>) = Default::default();
        let (counted, silent) = (Arc::clone(&connections), Arc::clone(&is_silent));
        let address = silenceable_primary(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            Arc::clone(&silent)
        });
        let url = format!("postgres://me@{address}/x?sslmode=disable").parse().unwrap();
        let pool = Pool::new(&url, PoolConfig::default()).unwrap();
        pool.read(|session| session.batch("SELECT")).unwrap();
        is_silent.store(true, Ordering::SeqCst);
        let limit = Duration::from_millis(50);
        let error = pool.read_within(limit, |session| session.batch("SELECT")).unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        assert_eq!(connections.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_read_on_a_connection_that_swallows_it_is_repeated_on_a_new_one() {
        let silences: [Arc<AtomicBool>; 2] = [(); 2].map(|()| Arc::default());
        let of_connections = silences.clone();
        let address = silenceable_primary(move |number| Arc::clone(&of_connections[number]));
        let url = format!("postgres://me@{address}/x?sslmode=disable").parse().unwrap();
        let pool = Pool::new(&url, PoolConfig::default()).unwrap();
        pool.read(|session| session.batch("SELECT")).unwrap();
        silences[0].store(true, Ordering::SeqCst);
        let first = Duration::from_millis(50);
        pool.read_retrying(first, AMPLE, |session| session.batch("SELECT")).unwrap();
    }

    #[test]
    fn the_first_host_that_works_is_used() {
        let (closing, first, second) = (server(Login::Closed), primary(1), primary(2));
        let find = |hosts: &[&str]| connect(&connector(hosts, "", AMPLE));
        assert_eq!(find(&[&first, &second]), Ok(1));
        assert_eq!(find(&[&closing, "127.0.0.1:1", &second, &first]), Ok(2));
        let starting = server(Login::Refused("57P03"));
        let other_rules = server(Login::Refused("28000"));
        assert_eq!(find(&[&starting, &other_rules, &second]), Ok(2));
    }

    #[test]
    fn a_refusal_of_all_hosts_is_permanent_and_one_beside_a_lost_host_is_not() {
        let (wrong, closing) = (server(Login::Refused("28P01")), server(Login::Closed));
        let refused = PgError::Configuration("refused with 28P01".to_owned());
        assert_eq!(connect(&connector(&[&wrong], "", AMPLE)), Err(refused.clone()));
        assert_eq!(connect(&connector(&[&wrong, &wrong], "", AMPLE)), Err(refused));
        for hosts in [[&*wrong, &*closing], [&*closing, &*wrong]] {
            let error = connect(&connector(&hosts, "", AMPLE)).unwrap_err();
            assert!(error.is_unavailable(), "{error}");
            assert!(error.to_string().contains(&format!("{wrong}: refused with 28P01")), "{error}");
        }
    }

    /// Starts a server that declines TLS and asks for the password in the clear, and returns what it is given.
    fn asking_server() -> (String, Receiver<Vec<u8>>) {
        let (listener, address) = listener();
        let (given, passwords) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, given) = (stream.unwrap(), given.clone());
                thread::spawn(move || {
                    if read_message(&mut stream, false)? == [4, 210, 22, 47] {
                        stream.write_all(b"N").ok()?;
                        read_message(&mut stream, false)?;
                    }
                    stream.write_all(&message(b'R', &[0, 0, 0, 3])).ok()?;
                    given.send(read_message(&mut stream, true)?).ok()
                });
            }
        });
        (address, passwords)
    }

    #[test]
    fn a_login_that_require_auth_does_not_allow_is_not_answered() {
        let (address, passwords) = asking_server();
        let try_url = |parameters: &str| {
            let url = format!("postgres://me:s3cret@{address}/x?{parameters}").parse().unwrap();
            connect(&Connector::new(&url, &PoolConfig::default()).unwrap()).unwrap_err()
        };
        for parameters in [
            "require_auth=scram-sha-256",
            "require_auth=!password",
            "require_auth=none&sslmode=disable",
            "require_auth=md5,none&sslmode=allow",
        ] {
            let error = try_url(parameters);
            let PgError::Configuration(text) = &error else { panic!("{parameters}: {error}") };
            assert!(text.contains("the login password, which require_auth"), "{text}");
            assert!(passwords.try_recv().is_err(), "{parameters}");
        }
        // The first one that is answered: the connection does not leave this machine.
        assert!(try_url("require_auth=password,none").is_unavailable());
        assert_eq!(passwords.recv().unwrap(), b"s3cret\0");
        let (trusting, url) = (primary(1), "x?require_auth=!none");
        let url = format!("postgres://me:s3cret@{trusting}/{url}&sslmode=disable").parse().unwrap();
        let error = connect(&Connector::new(&url, &PoolConfig::default()).unwrap()).unwrap_err();
        assert!(error.to_string().contains("asks for no login"), "{error}");
    }

    #[test]
    fn target_session_attrs_decide_which_host_is_used() {
        let (primary, standby, closing) = (primary(1), standby(2), server(Login::Closed));
        let find = |hosts: &[&str], attributes: &str| {
            let parameter = format!("&target_session_attrs={attributes}");
            connect(&connector(hosts, &parameter, AMPLE))
        };
        for hosts in [[&*primary, &*standby], [&*standby, &*primary]] {
            assert_eq!(find(&hosts, "read-write"), Ok(1));
            assert_eq!(find(&hosts, "standby"), Ok(2));
            assert_eq!(find(&hosts, "prefer-standby"), Ok(2));
        }
        assert_eq!(find(&[&standby, &primary], "any"), Ok(2));
        assert_eq!(find(&[&primary, &closing], "prefer-standby"), Ok(1));
        let error = find(&[&standby], "primary").unwrap_err();
        assert!(matches!(error, PgError::ReadOnly(_)), "{error}");
    }

    #[test]
    fn hosts_are_balanced_if_the_url_asks_for_it() {
        let hosts: Vec<String> = (1..=40).map(|number| format!("h{number}")).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let names = |parameters: &str| {
            let hosts = connector(&hosts, parameters, AMPLE).hosts();
            hosts.iter().map(|host| host.to_string().replace(":5432", "")).collect::<Vec<_>>()
        };
        assert_eq!(names(""), hosts);
        let mut shuffled = names("&load_balance_hosts=random");
        assert_ne!(shuffled, hosts);
        let number = |name: &String| name[1..].parse::<u32>().unwrap();
        shuffled.sort_by_key(number);
        assert_eq!(shuffled, hosts);
    }

    #[test]
    fn the_time_limit_is_that_of_all_hosts() {
        let limit = |url: &str| {
            Connector::new(&url.parse().unwrap(), &PoolConfig::default()).unwrap().time_limit()
        };
        assert_eq!(limit("postgres://a/x"), Duration::from_secs(6));
        assert_eq!(limit("postgres://a,b/x?connect_timeout=7"), Duration::from_secs(20));
        assert_eq!(limit("postgres:///x?hostaddr=10.0.0.1,10.0.0.2"), Duration::from_secs(12));
    }
}
