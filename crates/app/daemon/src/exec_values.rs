//! Values for the next program of this process, in the environment. Each begins with the process
//! identifier, so that children, which inherit the values, ignore them.

use std::process::Command;

/// Returns a value that was set in the environment for this process.
pub(crate) fn read_variable(name: &str) -> Option<String> {
    let text = std::env::var(name).ok()?;
    let (pid, value) = text.split_once(':')?;
    (pid.parse() == Ok(std::process::id())).then(|| value.to_owned())
}

/// Sets a value for the program that this command executes in this process.
pub(crate) fn set_variable(command: &mut Command, name: &str, value: &str) {
    command.env(name, format!("{}:{value}", std::process::id()));
}
