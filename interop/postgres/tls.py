"""TLS to PostgreSQL for real: every sslmode, certificates of several authorities, and a password that is never shown."""

import json
import os
import shutil
import subprocess

from postgres.checks import command, run_checks

PASSWORD = "s3cret word/with:signs"
QUOTED = "s3cret%20word%2Fwith%3Asigns"


def openssl(folder, *arguments):
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def authority(folder, name):
    openssl(folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.crt",
            "-days", "2", "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE")


def certificate(folder, issuer, name, subject, extensions):
    with open(os.path.join(folder, f"{name}.ext"), "w") as file:
        file.write(extensions)
    openssl(folder, "req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj",
            f"/CN={subject}")
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{issuer}.crt", "-CAkey", f"{issuer}.key",
            "-CAcreateserial", "-days", "2", "-out", f"{name}.crt", "-extfile", f"{name}.ext")


def start_with_tls(database, folder):
    """Makes PostgreSQL accept connections over TLS alone, with a password or a certificate."""
    os.chmod(folder, 0o755)
    authority(folder, "ours")
    authority(folder, "other")
    certificate(folder, "ours", "server", "localhost", "subjectAltName=DNS:localhost\nextendedKeyUsage=serverAuth\n")
    certificate(folder, "ours", "client", "skills", "extendedKeyUsage=clientAuth\n")
    database.sql(f"ALTER ROLE skills PASSWORD '{PASSWORD}'")
    database.create_database("certificates")
    for name in ("server.crt", "server.key", "ours.crt"):
        target = os.path.join(database.data, name)
        shutil.copy(os.path.join(folder, name), target)
        owner = os.stat(database.data)
        os.chown(target, owner.st_uid, owner.st_gid)
        os.chmod(target, 0o600)
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
        code = "bad_argument" if "sslmode=verify-ca&sslrootcert=system" in url else "store_unavailable"
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
        ("sslmode=verify-ca", "localhost", False),
        (f"sslmode=verify-full&sslrootcert={ours}", "localhost", True),
        (f"sslmode=verify-full&sslrootcert={ours}", "127.0.0.1", False),  # Another name than the certificate's.
        (f"sslmode=verify-full&sslrootcert={other}", "localhost", False),
        ("sslmode=verify-full&sslrootcert=/nowhere/root.crt", "localhost", False),
    ]
    wrong = [f"{parameters} at {host}: expected {expected}" for parameters, host, expected in cases
             if listed(program, url(parameters, host), folder) != expected]
    assert not wrong, wrong

    # libpq's default file of root certificates.
    os.makedirs(os.path.join(folder, ".postgresql"))
    shutil.copy(ours, os.path.join(folder, ".postgresql/root.crt"))
    assert listed(program, url("sslmode=verify-full"), folder)
    assert not listed(program, url("sslmode=verify-full", password="s3cret-but-wrong"), folder)

    # A certificate of the client instead of a password.
    pair = f"sslcert={folder}/client.crt&sslkey={folder}/client.key"
    certified = f"postgres://skills@localhost:{database.port}/certificates?sslmode=verify-full&sslrootcert={ours}"
    assert listed(program, f"{certified}&{pair}", folder)
    assert not listed(program, certified, folder)


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
    run_checks([every_sslmode_does_what_it_says, a_certificate_that_is_not_trusted_ends_a_server_at_once,
                a_server_without_tls_is_refused_where_tls_is_required, the_password_is_in_no_output])
