//! The routes, asked as a client asks them, with a registry and a vault behind them.

mod admin;
mod house;
mod secrets;
mod skills;
