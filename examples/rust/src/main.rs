//! Publish a skill, a section and a slash command, then read them back: `cargo run`.

use iii_sdk::protocol::TriggerRequest;
use iii_sdk::{Error, InitOptions, RegisterFunction, register_worker_from_env};
use serde_json::{Value, json};

const SKILL: &str = "# Weather\n\nForecasts for any city.\n\n\
                     Read [units](iii://weather/weather::units) first.\n";

fn units(_: Value) -> Result<Value, Error> {
    Ok(json!({ "content": "# Units\n\nTemperatures are in °C, wind is in m/s." }))
}

fn forecast(arguments: Value) -> Result<Value, Error> {
    let city = arguments["city"].as_str().ok_or("which city?")?;
    Ok(json!({ "content": format!("Do I need an umbrella in {city} today?") }))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    // III_URL, or ws://127.0.0.1:49134.
    let worker = register_worker_from_env(InitOptions::default());
    let call = |id: &str, payload: Value| worker.trigger(TriggerRequest::new(id, payload));

    worker.register_function("weather::units", RegisterFunction::new(units));
    worker.register_function("weather::forecast", RegisterFunction::new(forecast));

    call("skills::register", json!({ "id": "weather", "skill": SKILL })).await?;
    let prompt = json!({
        "name": "forecast",
        "description": "Ask about today's weather.",
        "arguments": [{ "name": "city", "description": "Where", "required": true }],
        "function_id": "weather::forecast",
    });
    call("prompts::register", prompt).await?;

    let uri = json!({ "uri": "iii://weather/weather::units" });
    let section = call("skills::resources-read", uri).await?;
    let lisbon = json!({ "name": "forecast", "arguments": { "city": "Lisbon" } });
    let prompt = call("prompts::mcp-get", lisbon).await?;
    let section = section["contents"][0]["text"].as_str().unwrap_or_default();
    let prompt = prompt["messages"][0]["content"]["text"].as_str().unwrap_or_default();
    println!("iii://weather/weather::units\n\n{section}\n");
    println!("/forecast city=Lisbon\n\n{prompt}");

    // A real worker stays connected: its sections and prompts are served while it runs.
    worker.shutdown_async().await;
    Ok(())
}
