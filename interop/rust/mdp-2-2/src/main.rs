//! MDP client on the crate modeldriveprotocol-client 2.2.0, over the HTTP loop: its WebSocket does not connect.
//!
//! `mdp-2-2 URL TOKEN` exposes the paths that `mdp_jobs.py` reads and prints `ready` when it is registered. It then
//! carries out the commands on standard input and prints each when it is done.

use std::io::{BufRead as _, stdin};

use anyhow::{Context as _, bail};
use modeldriveprotocol_client::{
    AuthContext, ClientInfo, EndpointOptions, HttpMethod, MdpClient, PathRequest, PromptOptions,
    SkillOptions,
};
use serde_json::json;

const REVIEW: &str = "# Review\n\nReads a change and says what is wrong.\n\nDetails in files.\n";

fn expose(client: &MdpClient) -> anyhow::Result<()> {
    for (path, body) in [
        ("/workspace/review/skill.md", REVIEW),
        ("/workspace/review/files/skill.md", "# Files\n\nOne by one.\n"),
        ("/skill.md", "# Root\n"),
    ] {
        client.expose_skill_markdown(path, body, SkillOptions::new())?;
    }
    client.expose_prompt_markdown(
        "/ask/prompt.md",
        "Ask about the review.",
        PromptOptions::new(),
    )?;
    let echo = async |request: PathRequest, _| Ok(json!([request.params, request.queries]));
    client.expose_endpoint("/goods/:id", HttpMethod::Post, echo, EndpointOptions::new())?;
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(token)) = (arguments.next(), arguments.next()) else {
        bail!("usage: mdp-2-2 URL TOKEN");
    };
    let client = MdpClient::new(url, ClientInfo::new("rust", "Rust"))?;
    client.set_auth(Some(AuthContext { token: Some(token), ..AuthContext::default() }));
    expose(&client)?;
    client.connect().await?;
    client.register(None).await?;
    println!("ready");
    loop {
        let line = tokio::task::spawn_blocking(|| stdin().lock().lines().next()).await?;
        let Some(command) = line.transpose()? else { return Ok(()) };
        match command.as_str() {
            "change" => {
                client.expose_skill_markdown(
                    "/later/skill.md",
                    "# Later\n",
                    SkillOptions::new(),
                )?;
                client.sync_catalog().await?;
            }
            "leave" => client.disconnect().await.context("leaving")?,
            other => bail!("{other} is nothing to do"),
        }
        println!("{command}");
    }
}
