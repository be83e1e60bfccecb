//! Search on every surface of the real binary.
//!
//! - `surfaces`: one order on the bus, over HTTP, MCP and the command line
//! - `attached`: on the state of an engine
//! - `commands`: `search`, `index`, `validate --routing` and `doctor search`
//! - `misses`: queries that found nothing

mod attached;
mod commands;
mod misses;
mod surfaces;

use serde_json::{Value, json};
use skills_testkit::Worker;

use crate::support::register;

/// Skills about related things, so that queries have several results.
const SKILLS: [(&str, &str); 6] = [
    (
        "pdf-tables",
        "---\nname: pdf-tables\ndescription: Extracts tables from PDF files. Use when a user has a PDF with tables.\n\
         tags: [pdf, data]\n---\n# PDF tables\n\nRuns camelot on each page.\n",
    ),
    (
        "pdf-forms",
        "---\nname: pdf-forms\ndescription: Fills PDF forms. Use when a form must be filled.\n---\n# PDF forms\n",
    ),
    (
        "scan-ocr",
        "---\nname: scan-ocr\ndescription: Reads scanned paper. Use when a scan has no text layer.\n---\n\
         # OCR\n\nWrites a searchable PDF with tesseract.\n",
    ),
    (
        "deploy-web",
        "---\nname: deploy-web\ndescription: Deploys a website. Use when a site goes live.\n---\n# Deploy\n",
    ),
    (
        "secret-pdf",
        "---\nname: secret-pdf\ndescription: Encrypts PDF files.\ndisable-model-invocation: true\n---\n# Lock\n",
    ),
    ("notes", "# Notes\n\nTakes notes in a PDF.\n"),
];

async fn fill(worker: &Worker) {
    for (id, body) in SKILLS {
        register(worker, id, body).await;
    }
}

/// Returns the ids of a page's results.
fn result_ids(page: &Value) -> Vec<String> {
    let results = page["results"].as_array().unwrap_or_else(|| panic!("{page}"));
    results.iter().map(|result| result["id"].as_str().unwrap().to_owned()).collect()
}

async fn search(worker: &Worker, query: &str) -> Value {
    worker.ok("skills::search", json!({ "query": query })).await
}
