//! Tests of connection URLs.

use tokio_postgres::config::TargetSessionAttrs;

use super::{parameters::REFUSED, *};

fn parse(text: &str) -> Result<DatabaseUrl, UrlError> {
    text.parse()
}

#[test]
fn the_password_is_never_printed() {
    let url = parse("postgres://me:s3cret@db.example:5433/skills?application_name=x").unwrap();
    assert_eq!(url.to_string(), "postgres://me@db.example:5433/skills");
    assert!(!format!("{url:?}").contains("s3cret"));
    let error = parse("postgres://me:s3cret@db/skills?sslmode=sure").unwrap_err();
    assert!(!error.to_string().contains("s3cret"), "{error}");
    for text in [
        "postgres://me:s3cret@db:port/skills",
        "postgres://me:a@s3cret@db/skills",
        "postgres://me:a?s3cret@db/skills",
        "postgres://me:a?s3cret=1@db/skills",
        "postgres://me:a&s3cret?@db/skills",
        "postgres://me:a#s3cret?s3cret@db/skills",
    ] {
        let error = parse(text).unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
    for text in ["postgres://me:a/s3cret@db/skills", "postgres://me:a%40s3cret@db/skills"] {
        assert_eq!(parse(text).unwrap().to_string(), "postgres://me@db:5432/skills");
    }
}

#[test]
fn several_hosts_mean_one_that_accepts_writes() {
    let url = parse("postgres://a:1,b:2/x").unwrap();
    assert_eq!(url.config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
    assert_eq!(url.to_string(), "postgres://a:1,b:2/x");
    let one = parse("postgres://a/x").unwrap();
    assert_eq!(one.config.get_target_session_attrs(), TargetSessionAttrs::Any);
    let any = parse("postgres://a,b/x?target_session_attrs=any").unwrap();
    assert_eq!(any.config.get_target_session_attrs(), TargetSessionAttrs::Any);
}

#[test]
fn sslmode_decides_what_is_verified() {
    let verification =
        |query: &str| parse(&format!("postgres://a/x?{query}")).map(|url| url.tls.verification);
    assert_eq!(verification("sslmode=require"), Ok(Verification::AuthorityIfInstalled));
    assert_eq!(verification("sslmode=require&sslrootcert=ca.pem"), Ok(Verification::Authority));
    assert_eq!(verification("sslmode=verify-ca"), Ok(Verification::Authority));
    assert_eq!(verification("sslmode=verify-full"), Ok(Verification::Full));
    assert_eq!(verification("sslrootcert=system"), Ok(Verification::Full));
    assert!(verification("sslmode=prefer&sslrootcert=system").is_err());
    assert!(verification("sslmode=yes").is_err());
    assert!(verification("sslcert=a.pem").is_err());
}

#[test]
fn the_schema_is_that_of_the_search_path() {
    assert_eq!(parse("postgres://a/x").unwrap().schema(), "skills");
    let url = parse("postgres://a/x?options=-c%20search_path%3Dother").unwrap();
    assert_eq!(url.schema(), "other");
    assert!(parse("postgres://a/x?options=-c%20search_path%3Da%22b").is_err());
}

#[test]
fn unknown_schemes_and_parameters_are_refused() {
    assert_eq!(parse("mysql://a/x"), Err(UrlError::Scheme));
    assert_eq!(parse("postgres:///x"), Err(UrlError::NoHost));
    assert!(parse("postgres://a/x?colour=red").is_err());
    for (name, _) in REFUSED {
        let error = parse(&format!("postgres://a/x?{name}=y")).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn parameters_of_libpq_without_effect_are_accepted() {
    for query in [
        "gssencmode=prefer",
        "gssencmode=disable&krbsrvname=postgres",
        "client_encoding=utf8",
        "client_encoding=UTF-8",
        "sslcompression=0",
        "sslsni=1",
    ] {
        assert_eq!(parse(&format!("postgres://a/x?{query}")), parse("postgres://a/x"), "{query}");
    }
    for query in ["gssencmode=require", "client_encoding=latin1", "replication=database"] {
        let error = parse(&format!("postgres://a/x?{query}")).unwrap_err();
        let name = query.split_once('=').unwrap().0;
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn the_fallback_name_gives_way_to_the_name() {
    let name = |query: &str| {
        let url = parse(&format!("postgres://a/x?{query}")).unwrap();
        url.config.get_application_name().unwrap().to_owned()
    };
    assert_eq!(name(""), "skills");
    assert_eq!(name("fallback_application_name=one"), "one");
    assert_eq!(name("fallback_application_name=one&application_name=two"), "two");
}

#[test]
fn versions_of_tls_can_be_limited() {
    let versions =
        |query: &str| parse(&format!("postgres://a/x?{query}")).map(|url| url.tls.versions);
    assert_eq!(versions("ssl_min_protocol_version=TLSv1"), Ok(TlsVersions::All));
    assert_eq!(versions("ssl_min_protocol_version=TLSv1.3"), Ok(TlsVersions::Tls13));
    assert_eq!(versions("ssl_max_protocol_version=TLSv1.2"), Ok(TlsVersions::Tls12));
    for query in [
        "ssl_min_protocol_version=TLSv1.4",
        "ssl_max_protocol_version=TLSv1.1",
        "ssl_min_protocol_version=TLSv1.3&ssl_max_protocol_version=TLSv1.2",
        "sslsni=maybe",
    ] {
        assert!(versions(query).is_err(), "{query}");
    }
    assert!(!parse("postgres://a/x?sslsni=0").unwrap().tls.sends_name);
}

#[test]
fn channel_binding_needs_tls() {
    let mode = |query: &str| {
        parse(&format!("postgres://a/x?{query}")).map(|url| url.config.get_ssl_mode())
    };
    assert_eq!(mode("channel_binding=prefer"), Ok(SslMode::Prefer));
    assert_eq!(mode("channel_binding=require"), Ok(SslMode::Require));
    assert_eq!(mode("ssl=true"), Ok(SslMode::Require));
    let error = mode("channel_binding=require&sslmode=disable").unwrap_err();
    assert!(error.to_string().contains("channel_binding"), "{error}");
    assert!(parse("postgres:///x?host=/run&channel_binding=require").is_err());
}

#[test]
fn require_auth_names_methods() {
    let rules = |value: &str| parse(&format!("postgres://a/x?require_auth={value}"));
    assert_eq!(rules("").unwrap().auth, parse("postgres://a/x").unwrap().auth);
    assert_ne!(rules("scram-sha-256,none").unwrap().auth, AuthRules::default());
    for value in ["gss", "sspi,password", "scram", "md5,!none"] {
        let error = rules(value).unwrap_err();
        assert!(error.to_string().contains("require_auth"), "{error}");
    }
}

#[test]
fn a_socket_directory_is_a_host() {
    let url = parse("postgres:///x?host=/run/postgresql&port=5433").unwrap();
    assert_eq!(url.to_string(), "postgres://[/run/postgresql]:5433/x");
    let same = parse("postgres://%2Frun%2Fpostgresql:5433/x").unwrap();
    assert_eq!(same.hosts, url.hosts);
    let same = parse("postgres://me@/x?host=%2Frun%2Fpostgresql&port=5433").unwrap();
    assert_eq!(same.hosts, url.hosts);
    assert_eq!(same.config.get_user(), Some("me"));
}

#[test]
fn sslmode_is_ignored_for_a_socket() {
    let url = parse("postgres:///x?host=/run,db&sslmode=verify-full").unwrap();
    let modes = url.hosts.iter().map(|host| url.config_of(host).get_ssl_mode());
    assert_eq!(modes.collect::<Vec<_>>(), [SslMode::Disable, SslMode::Require]);
    assert_eq!(url.tls.verification, Verification::Full);
    let url = parse("postgres:///x?host=/run&sslmode=verify-full&sslrootcert=none.crt").unwrap();
    assert_eq!(url.tls, TlsSettings::UNUSED);
    assert!(parse("postgres:///x?host=/run&sslmode=yes").is_err());
}

#[test]
fn hosts_addresses_and_ports_go_together() {
    let printed = |text: &str| {
        parse(text).map(|url| {
            let addresses = url.hosts.iter().map(|host| host.address.map(|ip| ip.to_string()));
            (url.to_string(), addresses.map(Option::unwrap_or_default).collect::<Vec<_>>())
        })
    };
    let hosts = |text: &str, addresses: &[&str]| {
        Ok((text.to_owned(), addresses.iter().map(ToString::to_string).collect()))
    };
    let named = printed("postgres://me@/x?host=a,b&hostaddr=10.0.0.1,10.0.0.2&port=1,");
    assert_eq!(named, hosts("postgres://me@a:1,b:5432/x", &["10.0.0.1", "10.0.0.2"]));
    let addresses = printed("postgres:///x?hostaddr=10.0.0.1,::1");
    assert_eq!(addresses, hosts("postgres://10.0.0.1:5432,[::1]:5432/x", &["10.0.0.1", "::1"]));
    let one_port = printed("postgres://a:1,[::1]:2/x?port=7");
    assert_eq!(one_port, hosts("postgres://a:7,[::1]:7/x", &["", ""]));
    let replaced = printed("postgres://a:1/x?host=b");
    assert_eq!(replaced, hosts("postgres://b:1/x", &[""]));
    for text in [
        "postgres://a,b/x?port=1,2,3",
        "postgres://a,b/x?hostaddr=10.0.0.1",
        "postgres://a/x?hostaddr=b",
        "postgres://a/x?port=70000",
        "postgres://:5433/x",
        "postgres://a,/x",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn every_host_has_the_settings_of_the_url() {
    let url = parse("postgres://me:word@a:1,b:2/x?connect_timeout=7&application_name=y").unwrap();
    let config = url.config_of(&url.hosts[1]);
    assert_eq!(config.get_hosts(), [Host::Tcp("b".to_owned())]);
    assert_eq!(config.get_ports(), [2]);
    assert_eq!((config.get_user(), config.get_dbname()), (Some("me"), Some("x")));
    assert_eq!(config.get_password(), Some(&b"word"[..]));
    assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(7)));
    assert_eq!(config.get_application_name(), Some("y"));
    assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
}

#[test]
fn a_standby_can_be_preferred() {
    let url = parse("postgres://a,b/x?target_session_attrs=prefer-standby").unwrap();
    assert!(url.prefers_standby);
    assert_eq!(url.config.get_target_session_attrs(), TargetSessionAttrs::Any);
    assert!(!parse("postgres://a,b/x?target_session_attrs=standby").unwrap().prefers_standby);
    assert!(parse("postgres://a,b/x?target_session_attrs=master").is_err());
}

#[test]
fn keepalives_of_the_url_are_respected() {
    let config = |query: &str| parse(&format!("postgres://a/x?{query}")).unwrap().config;
    let seconds = Duration::from_secs;
    let default = config("");
    assert!(default.get_keepalives());
    assert_eq!(default.get_keepalives_idle(), KEEPALIVES_IDLE);
    assert_eq!(default.get_keepalives_interval(), Some(KEEPALIVES_INTERVAL));
    assert_eq!(default.get_keepalives_retries(), Some(KEEPALIVES_COUNT));
    assert_eq!(default.get_tcp_user_timeout(), Some(&TCP_USER_TIMEOUT));
    let given =
        config("keepalives_idle=60&keepalives_interval=7&keepalives_count=9&tcp_user_timeout=1500");
    assert_eq!(given.get_keepalives_idle(), seconds(60));
    assert_eq!(given.get_keepalives_interval(), Some(seconds(7)));
    assert_eq!(given.get_keepalives_retries(), Some(9));
    assert_eq!(given.get_tcp_user_timeout(), Some(&Duration::from_millis(1_500)));
    let system =
        config("keepalives_idle=0&keepalives_interval=0&keepalives_count=0&tcp_user_timeout=0");
    assert_eq!(system.get_keepalives_idle(), seconds(7_200));
    assert_eq!(system.get_keepalives_interval(), None);
    assert_eq!(system.get_keepalives_retries(), None);
    assert_eq!(system.get_tcp_user_timeout(), None);
    assert!(!config("keepalives=0").get_keepalives());
    assert!(parse("postgres://a/x?keepalives_idle=soon").is_err());
}
