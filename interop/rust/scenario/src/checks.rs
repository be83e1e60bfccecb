//! Counting checks, collecting events, waiting with a deadline.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

const DEADLINE: Duration = Duration::from_secs(20);

/// Counts passed checks. The first failure is an error that ends the run.
#[derive(Default)]
pub struct Checks(usize);

impl Checks {
    pub fn count(&self) -> usize {
        self.0
    }

    pub fn that(&mut self, held: bool, what: &str) -> Result<()> {
        ensure!(held, "{what}");
        self.0 += 1;
        Ok(())
    }

    pub fn equal<T: PartialEq + Debug>(&mut self, got: T, wanted: T, what: &str) -> Result<()> {
        ensure!(got == wanted, "{what}:\n  wanted {wanted:?}\n  got    {got:?}");
        self.0 += 1;
        Ok(())
    }

    pub fn keys(
        &mut self,
        value: &Value,
        required: &[&str],
        optional: &[&str],
        what: &str,
    ) -> Result<()> {
        let object = value.as_object().ok_or_else(|| anyhow!("{what}: not an object: {value}"))?;
        let got: BTreeSet<&str> = object.keys().map(String::as_str).collect();
        let held = required.iter().all(|key| got.contains(key))
            && got.iter().all(|key| required.contains(key) || optional.contains(key));
        self.that(
            held,
            &format!("{what}: keys {got:?}, wanted {required:?} and perhaps {optional:?}"),
        )
    }

    pub fn fails<T: Debug>(&mut self, outcome: Result<T>, words: &str, what: &str) -> Result<()> {
        match outcome {
            Ok(result) => bail!("{what}: wanted an error with {words:?}, got {result:?}"),
            Err(error) => {
                let error = error.to_string();
                self.that(
                    error.contains(words),
                    &format!("{what}: wanted an error with {words:?}, got {error}"),
                )
            }
        }
    }
}

/// On-change events of one source, in order of arrival.
pub struct Events(watch::Sender<Vec<Value>>);

impl Events {
    pub fn new() -> Self {
        Events(watch::Sender::new(Vec::new()))
    }

    pub fn sink(&self) -> impl Fn(Value) + Send + Sync + 'static {
        let sender = self.0.clone();
        move |mut event| {
            // A bus names the caller in every object it routes; the payload is the rest.
            if let Some(object) = event.as_object_mut() {
                object.remove("_caller_worker_id");
            }
            sender.send_modify(|events| events.push(event));
        }
    }

    /// Returns the events once there are `count` of them, or those received within the deadline.
    pub async fn when(&self, count: usize) -> Vec<Value> {
        let mut receiver = self.0.subscribe();
        let enough = receiver.wait_for(|events| events.len() >= count);
        let _ = timeout(DEADLINE, enough).await;
        self.0.borrow().clone()
    }
}

/// Returns the first success of `attempt` within the deadline, or its last error.
pub async fn eventually<T, F>(mut attempt: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let end = Instant::now() + DEADLINE;
    loop {
        match attempt().await {
            Err(_) if Instant::now() < end => sleep(Duration::from_millis(50)).await,
            outcome => return outcome,
        }
    }
}

/// Converts an RFC 3339 timestamp in UTC to a sortable string with nanoseconds.
pub fn instant(value: &Value) -> Result<String> {
    let text = value.as_str().unwrap_or_default();
    let not_utc = || anyhow!("not an RFC 3339 instant in UTC: {value}");
    let text = text.strip_suffix('Z').or(text.strip_suffix("+00:00")).ok_or_else(not_utc)?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let shaped =
        seconds.bytes().zip("0000-00-00T00:00:00".bytes()).all(|(got, wanted)| match wanted {
            b'0' => got.is_ascii_digit(),
            mark => got == mark,
        });
    let whole =
        seconds.len() == 19 && fraction.len() <= 9 && fraction.bytes().all(|b| b.is_ascii_digit());
    ensure!(shaped && whole, not_utc());
    Ok(format!("{seconds}{fraction:0<9}"))
}
