"""TLS to PostgreSQL for real: every sslmode, certificates of several authorities, and a password that is never shown."""

import json
import os
import shutil
import socket
import ssl
import subprocess
import threading

from postgres.checks import command, run_checks

PASSWORD = "s3cret word/with:signs"
QUOTED = "s3cret%20word%2Fwith%3Asigns"


def openssl(folder, *arguments):
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def authority(folder, name):
    openssl(folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.crt",
            "-days", "2", "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE")


def certificate(folder, issuer, name, subject, extensions, *signature):
    with open(os.path.join(folder, f"{name}.ext"), "w") as file:
        file.write(extensions)
    openssl(folder, "req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj",
            f"/CN={subject}")
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{issuer}.crt", "-CAkey", f"{issuer}.key",
            "-CAcreateserial", "-days", "2", "-out", f"{name}.crt", "-extfile", f"{name}.ext", *signature)


def server_certificate(folder, issuer, *signature):
    extensions = "subjectAltName=DNS:localhost\nextendedKeyUsage=serverAuth\n"
    certificate(folder, issuer, "server", "localhost", extensions, *signature)


def install(database, folder, *names):
    for name in names:
        target = os.path.join(database.data, name)
        shutil.copy(os.path.join(folder, name), target)
        owner = os.stat(database.data)
        os.chown(target, owner.st_uid, owner.st_gid)
        os.chmod(target, 0o600)


class Interceptor:
    """Proxy that decrypts connections with a certificate of its own, and passes them on to the database by TLS."""

    REQUEST = bytes([0, 0, 0, 8, 4, 210, 22, 47])  # for TLS

    def __init__(self, target, certificate, key):
        self.target = target
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.relay, args=(client,), daemon=True).start()

    def relay(self, client):
        try:
            assert client.recv(8) == self.REQUEST
            client.sendall(b"S")
            client = self.context.wrap_socket(client, server_side=True)
            server = socket.create_connection(("127.0.0.1", self.target))
            server.sendall(self.REQUEST)
            assert server.recv(1) == b"S"
            trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
            server = trusting.wrap_socket(server)
            threading.Thread(target=self.pump, args=(server, client), daemon=True).start()
            self.pump(client, server)
        except OSError:
            client.close()

    @staticmethod
    def pump(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        for side in (source, sink):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def start_with_tls(database, folder):
    """Makes PostgreSQL accept connections over TLS alone, with a password or a certificate."""
    os.chmod(folder, 0o755)
    authority(folder, "ours")
    authority(folder, "other")
    server_certificate(folder, "ours")
    certificate(folder, "ours", "client", "skills", "extendedKeyUsage=clientAuth\n")
    database.sql(f"ALTER ROLE skills PASSWORD '{PASSWORD}'")
    database.create_database("certificates")
    install(database, folder, "server.crt", "server.key", "ours.crt")
    database.reconfigure("ssl = on\nssl_cert_file = 'server.crt'\nssl_key_file = 'server.key'\nssl_ca_file = 'ours.crt'\n",
                         "local all all trust\nhostssl certificates all 127.0.0.1/32 cert\n"
                         "hostssl all all 127.0.0.1/32 scram-sha-256\n")


def listed(program, url, folder):
    """Returns whether a database can be used. Nothing that is printed has the password."""
    status, out, said = command(program, "list", "--json", store=url, env={"HOME": folder})
    for text in (out, said):
        assert PASSWORD not in text and QUOTED not in text and "s3cret" not in text, text
    assert status in (0, 1), said
    if status == 1:
        is_bad = "sslmode=verify-ca&sslrootcert=system" in url or "sslmode=disable&channel_binding=require" in url
        code = "bad_argument" if is_bad else "store_unavailable"
        assert json.loads(said)["error"]["code"] == code, said
    return status == 0


def every_sslmode_does_what_it_says(program, database, folder):
    start_with_tls(database, folder)
    ours, other = (os.path.join(folder, name) for name in ("ours.crt", "other.crt"))

    def url(parameters, host="localhost", password=QUOTED, name="skills"):
        return f"postgres://skills:{password}@{host}:{database.port}/{name}?{parameters}"

    cases = [
        ("sslmode=disable", "localhost", False),  # The server takes TLS alone.
        ("sslmode=allow", "localhost", True),
        ("sslmode=prefer", "localhost", True),
        ("", "localhost", True),
        ("sslmode=require", "localhost", True),
        ("sslmode=require", "127.0.0.1", True),
        (f"sslmode=verify-ca&sslrootcert={ours}", "localhost", True),
        (f"sslmode=verify-ca&sslrootcert={ours}", "127.0.0.1", True),  # The name is not checked.
        (f"sslmode=verify-ca&sslrootcert={other}", "localhost", False),
        ("sslmode=verify-ca&sslrootcert=system", "localhost", False),  # As in libpq, the name has to be checked.
        ("sslmode=verify-full&sslrootcert=system", "localhost", False),
        (f"sslmode=verify-full&sslrootcert={ours}", "localhost", True),
        (f"sslmode=verify-full&sslrootcert={ours}", "127.0.0.1", False),  # Another name than the certificate's.
        (f"sslmode=verify-full&sslrootcert={other}", "localhost", False),
        ("sslmode=verify-full&sslrootcert=/nowhere/root.crt", "localhost", False),
    ]
    wrong = [f"{parameters} at {host}: expected {expected}" for parameters, host, expected in cases
             if listed(program, url(parameters, host), folder) != expected]
    assert not wrong, wrong

    # Without roots of its own, any public authority would do for any name.
    status, _, said = command(program, "list", "--json", store=url("sslmode=verify-ca"), env={"HOME": folder})
    error = json.loads(said)["error"]
    assert status == 1 and error["code"] == "store_unavailable" and "sslrootcert" in error["message"], said

    # libpq's default file of root certificates.
    os.makedirs(os.path.join(folder, ".postgresql"))
    shutil.copy(ours, os.path.join(folder, ".postgresql/root.crt"))
    assert listed(program, url("sslmode=verify-full"), folder)
    assert listed(program, url("sslmode=verify-ca", "127.0.0.1"), folder)
    assert not listed(program, url("sslmode=verify-full", password="s3cret-but-wrong"), folder)

    # A certificate of the client instead of a password.
    pair = f"sslcert={folder}/client.crt&sslkey={folder}/client.key"
    certified = f"postgres://skills@localhost:{database.port}/certificates?sslmode=verify-full&sslrootcert={ours}"
    assert listed(program, f"{certified}&{pair}", folder)
    assert not listed(program, certified, folder)


def passwords_are_bound_to_the_certificate(program, database, folder):
    start_with_tls(database, folder)
    openssl(folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384", "-nodes", "-keyout",
            "curve.key", "-out", "curve.crt", "-days", "2", "-subj", "/CN=curve")
    openssl(folder, "req", "-x509", "-newkey", "ed25519", "-nodes", "-keyout", "edwards.key", "-out", "edwards.crt",
            "-days", "2", "-subj", "/CN=edwards")
    url = f"postgres://skills:{QUOTED}@localhost:{database.port}/skills?sslmode=require&channel_binding="
    pss = ("-sigopt", "rsa_padding_mode:pss")
    for issuer, signature, expected in (("ours", ("-sha256",), True), ("ours", ("-sha384",), True),
                                        ("ours", ("-sha512", *pss), True), ("curve", ("-sha384",), True),
                                        ("edwards", (), False)):  # RFC 5929 has no binding for the last one.
        server_certificate(folder, issuer, *signature)
        install(database, folder, "server.crt", "server.key")
        database.reconfigure()
        assert listed(program, url + "require", folder) == expected, (issuer, signature)
        for binding in ("prefer", "disable"):
            assert listed(program, url + binding, folder), (issuer, signature, binding)
    assert not listed(program, url.replace("sslmode=require", "sslmode=disable") + "require", folder)

    # Someone with another certificate is in between.
    server_certificate(folder, "ours")
    install(database, folder, "server.crt", "server.key")
    database.reconfigure()
    certificate(folder, "other", "between", "localhost", "subjectAltName=DNS:localhost\n")
    between = Interceptor(database.port, f"{folder}/between.crt", f"{folder}/between.key")
    for binding, expected in (("require", False), ("prefer", False), ("disable", True)):
        through = url.replace(str(database.port), str(between.port)) + binding
        assert listed(program, through, folder) == expected, binding

    # The server uses another way to log in, which has no binding.
    access = "local all all trust\nhostssl all all 127.0.0.1/32 password\n"
    database.reconfigure(access=access)
    assert listed(program, url + "prefer", folder) and not listed(program, url + "require", folder)


def versions_of_tls_can_be_limited(program, database, folder):
    start_with_tls(database, folder)
    database.reconfigure("ssl_max_protocol_version = 'TLSv1.2'\n")
    url = f"postgres://skills:{QUOTED}@localhost:{database.port}/skills?sslmode=require&"
    for parameters, expected in (("ssl_min_protocol_version=TLSv1.2", True), ("ssl_max_protocol_version=TLSv1.2", True),
                                 ("ssl_min_protocol_version=TLSv1.3", False), ("sslsni=0", True)):
        assert listed(program, url + parameters, folder) == expected, parameters


def a_certificate_that_is_not_trusted_ends_a_server_at_once(program, database, folder):
    start_with_tls(database, folder)
    base = f"postgres://skills:{QUOTED}@localhost:{database.port}/skills?sslmode=verify-full&sslrootcert={folder}/"
    assert listed(program, f"{base}ours.crt", folder)
    arguments = ["serve", "--bus", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    status, _, said = command(program, *arguments, store=f"{base}other.crt", data_dir=os.path.join(folder, "data"))
    assert status == 1 and "certificate" in said and "hint:" in said and "s3cret" not in said, (status, said)


def a_server_without_tls_is_refused_where_tls_is_required(program, database, folder):
    base = f"postgres://skills:{QUOTED}@127.0.0.1:{database.port}/skills?sslmode="
    for mode, expected in (("disable", True), ("allow", True), ("prefer", True), ("require", False),
                           ("verify-ca", False), ("verify-full", False)):
        assert listed(program, base + mode, folder) == expected, mode
    assert not listed(program, base + "prefer&channel_binding=require", folder)


def own_address():
    """Returns an address of this machine that other machines can reach, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("203.0.113.1", 9))  # Sends nothing.
        except OSError:
            return None
        address = probe.getsockname()[0]
        return None if address.startswith("127.") else address


def require_auth_decides_how_a_server_may_have_the_client_log_in(program, database, folder):
    database.sql("SET password_encryption = 'md5'", f"ALTER ROLE skills PASSWORD '{PASSWORD}'")
    database.sql("SET password_encryption = 'scram-sha-256'", "CREATE ROLE scram LOGIN SUPERUSER "
                 f"PASSWORD '{PASSWORD}'")
    base = f"postgres://USER:{QUOTED}@127.0.0.1:{database.port}/skills?sslmode=SSL&require_auth="
    logins = {"trust": "none", "password": "password", "md5": "md5", "scram-sha-256": "scram-sha-256"}
    for method, name in logins.items():
        database.reconfigure(access=f"local all all trust\nhost all all all {method}\n")
        user = "scram" if method == "scram-sha-256" else "skills"
        url = base.replace("USER", user)
        for allowed, expected in ((name, True), (f"!{name}", False), (",".join(logins.values()), True), ("", True),
                                  (",".join(set(logins.values()) - {name}), False)):
            for ssl_mode in ("prefer", "disable"):
                assert listed(program, url.replace("SSL", ssl_mode) + allowed, folder) == expected, (method, allowed)
    # A connection that leaves this machine without TLS.
    if address := own_address():
        database.reconfigure("listen_addresses = '*'\n", access="local all all trust\nhost all all all password\n")
        url = base.replace("USER", "skills").replace("127.0.0.1", address)
        for ssl_mode, allowed, expected in (("prefer", "", False), ("allow", "", False), ("prefer", "!md5", False),
                                            ("prefer", "password", True), ("disable", "", True)):
            found = listed(program, url.replace("SSL", ssl_mode) + allowed, folder)
            assert found == expected, (ssl_mode, allowed)
        _, _, said = command(program, "list", "--json", store=url.replace("SSL", "prefer"), env={"HOME": folder})
        error = json.loads(said)["error"]
        assert "in the clear" in error["message"] and "require_auth=password" in error["hint"], error


def the_password_is_in_no_output(program, database, folder):
    start_with_tls(database, folder)
    store = f"postgres://skills:{QUOTED}@localhost:{database.port}/skills"
    environment = {"PGPASSWORD": PASSWORD, "RUST_LOG": "trace", "SKILLS_LOG": "trace"}
    for arguments in (["--help"], ["serve", "--help"], ["help"], ["store", "copy", "--help"], ["list"], ["status"],
                      ["doctor"], ["--manifest"], ["backup", os.path.join(folder, "b.skills")],
                      ["store", "copy", "--from", f"sqlite:{folder}/none", "--to", store],
                      ["store", "copy", "--from", store + "?sslmode=sure", "--to", store],
                      ["restore", os.path.join(folder, "none"), "--json"]):
        for where in (store, store.replace("skills:", "skills:wrong"), store + "?sslmode=sure"):
            _, out, said = command(program, *arguments, store=where, data_dir=None, env=environment)
            assert "s3cret" not in out + said, (arguments, out + said)
    # The password of the environment is used where the URL has none.
    bare = f"postgres://skills@localhost:{database.port}/skills"
    assert command(program, "list", store=bare, env={"PGPASSWORD": PASSWORD})[0] == 0
    assert command(program, "list", store=bare)[0] == 1


if __name__ == "__main__":
    run_checks([every_sslmode_does_what_it_says, passwords_are_bound_to_the_certificate,
                versions_of_tls_can_be_limited, a_certificate_that_is_not_trusted_ends_a_server_at_once,
                a_server_without_tls_is_refused_where_tls_is_required,
                require_auth_decides_how_a_server_may_have_the_client_log_in, the_password_is_in_no_output])
