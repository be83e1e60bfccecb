//! The vault, the store and the writer thread survive damage and full disks.

mod joint_changes {
    //! Skill and account change together; full disks; damaged secrets.

    use std::{
        fs,
        io::{Read as _, Write as _},
        net::{Shutdown, TcpStream},
        path::PathBuf,
        thread,
        time::{Duration, Instant},
    };

    use rusqlite::Connection;
    use serde_json::{Value, json};
    use skills_testkit::{Request, Response, ServerProcess, program, run};
    use tempfile::TempDir;

    use crate::support::BINARY;

    const ADMIN: &str = "an-administrators-secret-0123456789";
    const MASTER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn ask(
        server: &ServerProcess,
        key: &str,
        method: &str,
        target: &str,
        body: &Value,
    ) -> Response {
        let request =
            Request::new(method, target).header("Authorization", &format!("Bearer {key}"));
        let request = if body.is_null() {
            request
        } else {
            request.header("Content-Type", "application/json").body(body.to_string())
        };
        request.send(&server.http)
    }

    fn serve(dir: &TempDir) -> ServerProcess {
        let mut command = ServerProcess::command(BINARY, &dir.path().join("data"));
        ServerProcess::spawn(command.env("ADMIN_KEY", ADMIN).env("MASTER_ENCRYPTION_KEY", MASTER))
    }

    fn create_key(server: &ServerProcess, uid: &str) -> (String, String) {
        let body = json!({ "user_uid": uid });
        let made = ask(server, ADMIN, "POST", "/v1/admin/keys", &body).json();
        let text = |field: &str| made[field].as_str().unwrap().to_owned();
        (text("key"), text("key_id"))
    }

    fn skill(more: Value) -> Value {
        let manifest = json!({
            "id": "plan",
            "meta": {
                "name": "Plan", "description": "A plan.",
                "parameters": {"type": "object", "properties": {}},
            },
            "config": {"endpoint": "https://nobody.invalid/{{SECRETS.PLAN_KEY}}", "method": "GET"},
        });
        let mut body = json!({
            "user_uid": "ann", "skill_name": "plan", "status": "private", "manifest": manifest,
            "secrets": {"PLAN_KEY": "value"},
        });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    }

    #[test]
    fn sync_skill_and_sync_cache_change_vault_and_store_together_or_not_at_all() {
        if skills_testkit::needs_embedded_store("locks the file") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let server = serve(&dir);
        let (ann, _) = create_key(&server, "ann");
        let secrets = || ask(&server, ann.as_str(), "GET", "/v1/secrets", &Value::Null).json();
        let tier = || {
            let known = ask(&server, &ann, "GET", "/v1/auth/verify", &Value::Null).json();
            known["tier"].as_str().unwrap().to_owned()
        };
        let (no_secrets, tier_before) = (secrets(), tier());
        let requests = [
            ("/v1/admin/sync_skill", skill(json!({}))),
            ("/v1/admin/sync_cache", skill(json!({ "type": "skill_update", "tier": "PRO" }))),
        ];
        // Another writer blocks commits of the store.
        let store = Connection::open(dir.path().join("data/skills.db")).unwrap();
        store.execute_batch("BEGIN IMMEDIATE").unwrap();
        for (target, body) in &requests {
            let answer = ask(&server, ADMIN, "POST", target, body);
            assert!(answer.status >= 500, "{target}: {} {}", answer.status, answer.json());
            assert_eq!(secrets(), no_secrets, "{target}");
            assert_eq!(tier(), tier_before, "{target}");
        }
        store.execute_batch("ROLLBACK").unwrap();
        let found =
            |id: &str| ask(&server, &ann, "GET", &format!("/v1/skills/{id}"), &Value::Null).status;
        assert_eq!(found("plan"), 404);
        for (target, body) in &requests {
            let answer = ask(&server, ADMIN, "POST", target, body);
            assert_eq!(answer.status, 200, "{target}: {}", answer.json());
        }
        assert_eq!(found("plan"), 200);
        assert_ne!(secrets(), no_secrets);
        assert_ne!(tier(), tier_before);
    }

    /// Makes commits that set a secret fail: a foreign key is checked only at commit.
    fn fail_commits(dir: &TempDir) -> Connection {
        let vault = Connection::open(dir.path().join("data/vault.sqlite")).unwrap();
        let sql = "CREATE TABLE parent (id INTEGER PRIMARY KEY);
            CREATE TABLE child (id INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED);
            CREATE TRIGGER late AFTER INSERT ON secret BEGIN INSERT INTO child VALUES (1); END";
        vault.execute_batch(sql).unwrap();
        vault
    }

    /// Returns `skill` with a changed manifest and secrets.
    fn changed_skill() -> Value {
        let mut body = skill(json!({}));
        body["manifest"]["meta"]["description"] = json!("Another plan.");
        body
    }

    fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is_so() {
            assert!(Instant::now() < deadline, "{what}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_skill_is_restored_when_the_vault_cannot_commit() {
        if skills_testkit::needs_embedded_store("adds a trigger to the file") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let server = serve(&dir);
        let (ann, _) = create_key(&server, "ann");
        let shown = || ask(&server, &ann, "GET", "/v1/skills/plan", &Value::Null);
        drop(fail_commits(&dir));
        let answer = ask(&server, ADMIN, "POST", "/v1/admin/sync_skill", &changed_skill());
        assert!(answer.status >= 500, "{} {}", answer.status, answer.json());
        assert_eq!(shown().status, 404, "a new skill is gone");
        let alone = skill(json!({ "secrets": {} }));
        assert_eq!(ask(&server, ADMIN, "POST", "/v1/admin/sync_skill", &alone).status, 200);
        let mut update = changed_skill();
        update["type"] = json!("skill_update");
        let requests =
            [("/v1/admin/sync_skill", changed_skill()), ("/v1/admin/sync_cache", update)];
        for (target, body) in requests {
            let answer = ask(&server, ADMIN, "POST", target, &body);
            assert!(answer.status >= 500, "{target}: {} {}", answer.status, answer.json());
            let text = shown().json().to_string();
            assert!(
                text.contains("A plan.") && !text.contains("Another plan."),
                "{target}: {text}"
            );
        }
    }

    #[test]
    fn a_skill_is_restored_after_its_request_was_dropped() {
        if skills_testkit::needs_embedded_store("adds a trigger to the file") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let server = serve(&dir);
        let (ann, _) = create_key(&server, "ann");
        let alone = skill(json!({ "secrets": {} }));
        assert_eq!(ask(&server, ADMIN, "POST", "/v1/admin/sync_skill", &alone).status, 200);
        let vault = fail_commits(&dir);
        vault.busy_timeout(Duration::ZERO).unwrap();
        let store = Connection::open(dir.path().join("data/skills.db")).unwrap();
        let revision = || -> u64 {
            store.query_row("SELECT max(revision) FROM change", [], |row| row.get(0)).unwrap()
        };
        let before = revision();
        store.execute_batch("BEGIN IMMEDIATE").unwrap();
        let request = Request::new("POST", "/v1/admin/sync_skill")
            .header("Authorization", &format!("Bearer {ADMIN}"))
            .header("Content-Type", "application/json")
            .body(changed_skill().to_string());
        let address = server.http.strip_prefix("http://").unwrap_or(&server.http);
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(&request.bytes(address)).unwrap();
        wait_until("the vault is not locked", || {
            vault.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_err()
        });
        stream.shutdown(Shutdown::Write).unwrap();
        let mut output = String::new();
        // The server closes the connection when it has dropped the request.
        drop(stream.read_to_string(&mut output));
        assert_eq!(output, "", "the request was answered");
        store.execute_batch("ROLLBACK").unwrap();
        wait_until("the skill is not put back", || revision() == before + 2);
        let text = ask(&server, &ann, "GET", "/v1/skills/plan", &Value::Null).json().to_string();
        assert!(text.contains("A plan.") && !text.contains("Another plan."), "{text}");
    }

    /// Means to make all file writes of a server fail for a while.
    #[cfg(target_os = "linux")]
    enum DiskFault {
        /// File that fills the server's own file system.
        Ballast(PathBuf),
        /// File size limit of the process.
        SizeLimit(rustix::process::Pid),
    }

    #[cfg(target_os = "linux")]
    impl DiskFault {
        fn begin(&self) {
            match self {
                Self::Ballast(path) => drop(fs::write(path, vec![0; 8 << 20]).unwrap_err()),
                Self::SizeLimit(pid) => limit_size(*pid, Some(0)),
            }
        }

        fn end(&self) {
            match self {
                Self::Ballast(path) => fs::remove_file(path).unwrap(),
                Self::SizeLimit(pid) => limit_size(*pid, None),
            }
        }
    }

    #[cfg(target_os = "linux")]
    fn limit_size(pid: rustix::process::Pid, bytes: Option<u64>) {
        use rustix::process::{Resource, Rlimit, prlimit};
        let limit = Rlimit { current: bytes, maximum: None };
        prlimit(Some(pid), Resource::Fsize, limit).unwrap();
    }

    /// Starts a server behind a wrapper command and a shell script.
    #[cfg(target_os = "linux")]
    fn serve_after(wrapper: &[&str], script: &str, dir: &TempDir) -> ServerProcess {
        let serve = ServerProcess::command(BINARY, &dir.path().join("data"));
        let mut command = program(wrapper[0]);
        command.args(&wrapper[1..]).args(["bash", "-c"]);
        command.arg(format!("{script} && exec \"$@\"")).arg(dir.path());
        command.arg(serve.get_program()).args(serve.get_args());
        ServerProcess::spawn(command.env("ADMIN_KEY", ADMIN).env("MASTER_ENCRYPTION_KEY", MASTER))
    }

    /// Starts a server whose writes fail with `EFBIG`, which works everywhere.
    #[cfg(target_os = "linux")]
    fn with_size_limit(dir: &TempDir) -> (ServerProcess, DiskFault) {
        // The default action of the signal would end the process before the write fails.
        let server = serve_after(&["env"], "trap '' XFSZ", dir);
        let pid = rustix::process::Pid::from_raw(server.pid().try_into().unwrap()).unwrap();
        (server, DiskFault::SizeLimit(pid))
    }

    /// Starts a server whose writes fail with `ENOSPC`; `None` without permission to mount.
    #[cfg(target_os = "linux")]
    fn on_small_disk(dir: &TempDir) -> Option<(ServerProcess, DiskFault)> {
        let alone = ["unshare", "--map-root-user", "--mount"];
        let mount = "mount -t tmpfs -o size=4m tmpfs \"$0\"";
        let mut can_mount = program(alone[0]);
        can_mount.args(&alone[1..]).args(["bash", "-c", mount]).arg(dir.path());
        if run(&mut can_mount).code != Some(0) {
            return None;
        }
        let server = serve_after(&alone, mount, dir);
        let root = PathBuf::from(format!("/proc/{}/root", server.pid()));
        let ballast = root.join(dir.path().strip_prefix("/").unwrap()).join("ballast");
        Some((server, DiskFault::Ballast(ballast)))
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_key_can_be_revoked_while_the_disk_is_full() {
        if skills_testkit::needs_embedded_store("fills the disk of the file") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (server, fault) = with_size_limit(&dir);
        revoke_during(&server, &fault);
        let dir = tempfile::tempdir().unwrap();
        if let Some((server, fault)) = on_small_disk(&dir) {
            revoke_during(&server, &fault);
        }
    }

    #[cfg(target_os = "linux")]
    fn revoke_during(server: &ServerProcess, fault: &DiskFault) {
        let (key, id) = create_key(server, "ann");
        let status = || ask(server, &key, "GET", "/v1/secrets", &Value::Null).status;
        assert_eq!(status(), 200);
        fault.begin();
        let target = format!("/v1/admin/keys/{id}");
        let answer = ask(server, ADMIN, "DELETE", &target, &Value::Null);
        let body = answer.json();
        assert_eq!((answer.status, &body["revoked"]), (200, &json!(true)), "{body}");
        assert_eq!(body["stored"], false, "{body}");
        assert!(body["note"].as_str().unwrap().contains("restart"), "{body}");
        assert_eq!(status(), 401, "at once");
        let create = ask(server, ADMIN, "POST", "/v1/admin/keys", &json!({ "user_uid": "bob" }));
        assert!(create.status >= 500, "nothing can be written: {}", create.json());
        fault.end();
        // The revocation is stored without another request: the log shows it.
        wait_until("the revocation is not stored", || {
            let log = ask(server, ADMIN, "GET", "/v1/admin/log", &Value::Null).json();
            log.to_string().contains("key.revoke")
        });
        assert_eq!(status(), 401);
    }

    #[test]
    fn a_damaged_secret_is_refused_on_import() {
        let dir = tempfile::tempdir().unwrap();
        let sealed = "000102030405060708090a0b.41c43c4c932efc0c18e08262fb642111.7e7dd95a2f";
        let values = json!({
            "GOOD": sealed,
            "FOURTH_PART": format!("{sealed}.00"),
            "SHORT_IV": &sealed[4..],
            "LONG_IV": format!("0c{sealed}"),
            "FIFTH_PART": format!("v1.00000000.{sealed}"),
            "CUT_OFF": "v1.00000000.000102030405060708090a0b",
            "PLAIN": "10.0.0.1",
        });
        let line = json!({ "key": "skill:secrets:ann", "value": values });
        let path = dir.path().join("lines");
        fs::write(&path, format!("{line}\n")).unwrap();
        let skills = |arguments: &[&str]| {
            let mut command = program(BINARY);
            command.arg("--data-dir").arg(dir.path().join("data")).args(arguments);
            run(command.env("MASTER_ENCRYPTION_KEY", MASTER))
        };
        let ran = skills(&["import", path.to_str().unwrap()]);
        let output = format!("{}{}", ran.stdout, ran.stderr);
        for name in ["FOURTH_PART", "SHORT_IV", "LONG_IV", "FIFTH_PART", "CUT_OFF"] {
            assert!(output.contains(&format!("{name} is skipped")), "{name}: {output}");
        }
        let listed = skills(&["secret", "list", "--uid", "ann", "--json"]).stdout;
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let names: Vec<&str> = listed["secrets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["GOOD", "PLAIN"]);
    }
}
