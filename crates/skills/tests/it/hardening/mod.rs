//! Regression tests for attacks: each test is named after the attack it prevents.

mod answer_limits;
mod bus_limits;
mod configuration;
mod function_access;
mod git_programs;
mod guessed_credentials;
mod live_client_limits;
mod memory_budget;
mod planted_files;
mod printed_tokens;
mod remote_content;
mod resource_limits;
mod vault_and_store;
mod web_content;
