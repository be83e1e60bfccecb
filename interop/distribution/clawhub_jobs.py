"""ClawHub's own client, unmodified: search, inspect, install, update and publish against a server."""

import json

from distribution_jobs import SKILL, Site


def jobs(options, failure):
    folder = options.cache / "distribution-node" / "node_modules"
    yield f"distribution clawhub {options.clawhub}", lambda bench: clawhub_job(bench, folder, failure)


class Client:
    """`clawhub` with a configuration and a project of its own."""

    def __init__(self, site, folder, name):
        self.site, self.project = site, site.bench.folder / f"claw-{name}"
        self.project.mkdir()
        # The client needs a newer Node than Debian's, which a package brings.
        self.command = [folder / "node" / "bin" / "node", folder / "clawhub" / "bin" / "clawdhub.js"]
        self.env = {"CLAWHUB_CONFIG_PATH": str(self.project / "config.json"), "CLAWHUB_DISABLE_TELEMETRY": "1",
                    "NO_COLOR": "1"}

    def attempt(self, *arguments):
        options = ["--registry", self.site.bench.http, "--workdir", self.project, "--no-input"]
        return self.site.attempt(*self.command, *options, *arguments, cwd=self.project, **self.env)

    def __call__(self, *arguments):
        result = self.attempt(*arguments)
        if result.returncode != 0:
            raise self.site.failure(f"clawhub {arguments} ended with {result.returncode}\n{result.stdout}\n{result.stderr}")
        return result.stdout + result.stderr

    def refused(self, words, *arguments):
        result = self.attempt(*arguments)
        said = result.stdout + result.stderr
        self.site.check(result.returncode != 0 and words in said, f"clawhub {arguments} said {said!r}, not {words!r}")

    def document(self, path="skills/pdf"):
        return (self.project / path / "SKILL.md").read_bytes()


def clawhub_job(bench, folder, failure):
    site = Site(bench, failure, ADMIN_KEY="an-administrator-secret-for-these-tests")
    source = site.add("pdf", "One.")
    site.add("sheet", "Reads tables.")
    anyone = Client(site, folder, "anyone")
    reading(site, anyone, source)
    publishing(site, folder)
    bench.stop_server(site.server)


def reading(site, clawhub, source):
    check = site.check
    check("sheet" in clawhub("search", "tables"), "the search finds nothing")
    check("pdf" in clawhub("search", "pdf", "--exact"), "no exact result")
    check("pdf" in clawhub("search", "pd", "--prefix"), "no result by prefix")
    explored = json.loads(clawhub.attempt("explore", "--json").stdout)
    check({item["slug"] for item in explored["items"]} == {"pdf", "sheet"}, "explore lists both")
    seen = clawhub("inspect", "pdf", "--versions", "--files")
    check("1.0.0" in seen and "scripts/run.sh" in seen, f"inspect shows {seen}")
    check("One." in clawhub("inspect", "pdf", "--file", "SKILL.md"), "inspect reads a file")
    clawhub("install", "pdf")
    check(clawhub.document() == (source / "SKILL.md").read_bytes(), "another document is installed")
    data = clawhub.project / "skills" / "pdf" / "data.bin"
    check(data.read_bytes() == (source / "data.bin").read_bytes(), "another file is installed")
    check("pdf" in clawhub("list"), "the installed skill is listed")
    check("up to date" in clawhub("update", "pdf"), "nothing is new")
    site.add("pdf", "Two.")
    check("1.0.1" in clawhub("update", "--all"), "the update is not installed")
    check(b"Two." in clawhub.document(), "the text is not the new one")
    clawhub("update", "pdf", "--version", "1.0.0", "--force")
    check(b"One." in clawhub.document(), "the older version is not installed")
    site.skills("yank", "pdf@1", "--reason", "broken")
    clawhub.refused("withdrawn", "install", "pdf", "--version", "1.0.0", "--force")
    clawhub.refused("not found", "install", "nothing")
    clawhub.refused("Not logged in", "whoami")


def publishing(site, folder):
    check = site.check
    ann, bob, admin = (Client(site, folder, name) for name in ("ann", "bob", "admin"))
    ann.refused("key is unknown", "login", "--token", "us-nobody-has-this-key")
    check("@ann" in ann("login", "--token", site.key("ann")), "the key is not accepted")
    bob("login", "--token", site.key("bob"))
    admin("login", "--token", "an-administrator-secret-for-these-tests")
    check("ann" in ann("whoami"), "whoami names another user")

    notes = site.write("notes", "One.")
    large = bytes(range(256)) * (9 << 12)
    (notes / "large.bin").write_bytes(large)
    (notes / "table.json").write_text(json.dumps([0] * 200_000))
    published = ann("publish", notes, "--changelog", "First.")
    check("notes@1.0.0" in published, f"publish said {published}")
    check("already published" in ann("publish", notes), "equal files are not published again")
    ann("install", "notes")
    installed = ann.project / "skills" / "notes"
    check((installed / "large.bin").read_bytes() == large, "a large file differs")
    check("up to date" in ann("update", "notes"), "the installed version is not known")
    bob.refused("not found", "install", "notes")
    bob.refused("not found", "install", "@ann/notes")
    shown = json.loads(site.run(site.bench.server_binary, "list", "--json", "--data-dir", site.data))
    check("notes" not in json.dumps(shown), "a private skill is listed for everyone")

    (notes / "SKILL.md").write_text(SKILL.format(name="notes", text="Two."))
    check("notes@1.0.1" in ann("publish", notes), "the next version is not chosen")
    check("1.0.1" in ann("update", "notes"), "the published update is not installed")
    check(b"Two." in ann.document("skills/notes"), "the update has another text")
    (notes / "SKILL.md").write_text(SKILL.format(name="notes", text="Three."))
    ann.refused("not higher", "publish", notes, "--version", "1.0.0")
    ann("publish", notes, "--version", "2.0.0", "--tags", "latest,beta")
    check("beta=2.0.0" in ann("inspect", "notes", "--versions"), "the tag is not a label")
    ann.refused("administrators", "publish", notes, "--owner", "official", "--version", "3.0.0")
    check("official" not in ann("inspect", "notes"), "the private skill is not the own one")

    check("notes@1.0.0" in admin("publish", notes, "--owner", "official"), "an administrator cannot publish")
    admin.refused("--owner", "publish", notes)
    bob("install", "notes")
    check(b"Three." in bob.document("skills/notes"), "the official skill is not installed")
    ann("delete", "notes", "--yes")
    check("official" in ann("inspect", "notes"), "the official skill is not seen after the removal")
    ann.refused("withdrawn", "install", "@ann/notes", "--force")
    ann.refused("does not support", "star", "pdf", "--yes")
    check("published" in ann("sync", "--root", notes.parent, "--all", "--owner", "ann").lower(), "sync publishes nothing")
