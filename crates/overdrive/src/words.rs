//! How the command line's words are read: letters' case does not count in names of choices, and a wrong one is answered
//! with the nearest.

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Command, CommandFactory, FromArgMatches};

/// Reads the command line; prints help or what is wrong, and ends the program, where there is nothing to run.
pub(crate) fn parse<Arguments: CommandFactory + FromArgMatches>(
    change: impl FnOnce(Command) -> Command,
) -> Arguments {
    let mut command = change(lenient(Arguments::command()));
    let read = command.try_get_matches_from_mut(std::env::args_os());
    let read = read.and_then(|matches| Arguments::from_arg_matches(&matches));
    read.unwrap_or_else(|error| with_nearest(error).format(&mut command).exit())
}

/// The same command, to whose choices letters' case does not matter.
fn lenient(command: Command) -> Command {
    let command = command.mut_args(|argument| match argument.get_action().takes_values() {
        true => argument.ignore_case(true),
        false => argument,
    });
    command.mut_subcommands(lenient)
}

/// Adds the choice that is nearest to one that there is not, where clap has found none.
fn with_nearest(mut error: Error) -> Error {
    let is_known = error.get(ContextKind::SuggestedValue).is_some();
    if error.kind() != ErrorKind::InvalidValue || is_known {
        return error;
    }
    let (Some(ContextValue::String(wrong)), Some(ContextValue::Strings(known))) =
        (error.get(ContextKind::InvalidValue), error.get(ContextKind::ValidValue))
    else {
        return error;
    };
    let near = models::near(wrong, known.iter().map(String::as_str)).map(str::to_owned);
    if let Some(near) = near {
        error.insert(ContextKind::SuggestedValue, ContextValue::String(near));
    }
    error
}
