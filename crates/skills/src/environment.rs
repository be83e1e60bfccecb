//! Environment variables.
//!
//! clap's `env` is not used: it takes an empty variable as a value, and errors here name the variable.
//!
//! | variable | empty | not UTF-8 |
//! |---|---|---|
//! | token, or path of the configuration file: without it the server is more open | error | error |
//! | any other | counts as not set | error |

use skills_core::Code;
use std::{env::VarError, path::PathBuf};

use crate::{
    Failure,
    token_rules::{self, TokenUse},
};

/// Reads a variable. An empty one counts as not set.
///
/// # Errors
/// When its value is not UTF-8.
pub(crate) fn text(name: &str) -> Result<Option<String>, Failure> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(bad(name, "is not valid UTF-8")),
    }
}

/// Reads a variable that holds a token.
///
/// # Errors
/// When it is set and empty, cannot be presented in a header, or is too short for its use.
pub(crate) fn token(name: &str, token_use: TokenUse) -> Result<Option<String>, Failure> {
    let value = match text(name)? {
        None if std::env::var_os(name).is_some() => Some(String::new()),
        value => value,
    };
    value.map(|value| check_token(name, value, token_use)).transpose()
}

/// Returns the token of a flag, or else of a variable.
///
/// # Errors
/// When it is empty, cannot be presented in a header, or is too short for its use.
pub(crate) fn flag_or_token(
    flag: &str,
    value: Option<String>,
    variable: &str,
    token_use: TokenUse,
) -> Result<Option<String>, Failure> {
    match value {
        Some(value) => check_token(flag, value, token_use).map(Some),
        None => token(variable, token_use),
    }
}

fn check_token(name: &str, value: String, token_use: TokenUse) -> Result<String, Failure> {
    match token_rules::problem(&value, token_use) {
        Some(problem) => Err(bad(name, problem)),
        None => Ok(value),
    }
}

/// Reads a variable that holds a path, in any encoding. An empty one counts as not set.
pub(crate) fn path(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Reads a variable that holds the path of a required file.
///
/// # Errors
/// When it is set and empty.
pub(crate) fn required_path(name: &str) -> Result<Option<PathBuf>, Failure> {
    match path(name) {
        None if std::env::var_os(name).is_some() => Err(bad(name, "is set but empty")),
        path => Ok(path),
    }
}

fn bad(name: &str, problem: &str) -> Failure {
    Failure::new(Code::BadSetting, format!("{name} {problem}"))
        .hint(format!("correct {name} or unset it"))
}
