//! The phase `seed`: checks the content that the contract's own example worker publishes.

use anyhow::Result;
use serde_json::json;

use crate::Sdk;
use crate::checks::eventually;
use crate::client::{Client, markdown, user_says};

impl<S: Sdk> Client<S> {
    pub async fn seed(&mut self) -> Result<()> {
        // The prompt is the last thing the example registers.
        let greet = json!({ "name": "greet", "arguments": { "name": "Ada" } });
        eventually(|| self.call("prompts::mcp-get", greet.clone())).await?;

        let body = "# demo\n\nA demo worker.\n\nSee [`guide`](iii://demo/demo::guide) for the long version.\n";
        let guide = "# Demo guide\n\nThe long-form docs for the demo worker.";
        let read = self.read("iii://demo").await?;
        self.checks.equal(read, markdown(body), "the demo skill")?;
        let read = self.read("iii://demo/demo::guide").await?;
        self.checks.equal(read, markdown(guide), "the demo guide")?;
        let messages = self.render(greet).await?;
        self.checks.equal(messages, user_says("Greet Ada warmly."), "the greet prompt")
    }
}
