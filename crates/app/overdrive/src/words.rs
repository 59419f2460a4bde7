//! Parsing of the command line: case is ignored in names of choices, and an unknown name is
//! answered with the nearest one.

use crate::terminal;
use anstyle::AnsiColor;
use block::printable;
use clap::builder::Styles;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Command, CommandFactory, FromArgMatches};
use report::terminal::sentence_width;
use stack::Exit;
use std::borrow::Cow;
use std::io::IsTerminal;

/// Looks of the help on a terminal with colours.
const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Yellow.on_default().bold())
    .usage(AnsiColor::Yellow.on_default().bold())
    .literal(AnsiColor::Green.on_default().bold())
    .placeholder(AnsiColor::Green.on_default())
    .valid(AnsiColor::Green.on_default())
    .invalid(AnsiColor::Red.on_default());

/// Parses the command line; prints help or the error, and ends the program, if there is nothing to
/// run.
pub(crate) fn parse<Arguments: CommandFactory + FromArgMatches>(
    change: impl FnOnce(Command) -> Command,
) -> Arguments {
    let command = change(lenient(reflowed(Arguments::command())));
    let tree = command.clone();
    let mut command = command.styles(STYLES).term_width(sentence_width(terminal::width()));
    let read = command.try_get_matches_from_mut(std::env::args_os());
    let read = read.and_then(|matches| Arguments::from_arg_matches(&matches));
    read.unwrap_or_else(|error| {
        let error = with_commands(with_nearest(error), &tree).format(&mut command);
        daemon::resume_former(Exit::Usage, &error.to_string());
        end(&error)
    })
}

/// Prints help, or the error, and ends the program. Words of the user that are not printable are
/// printed as [`printable`] converts them, and without colours.
fn end(error: &Error) -> ! {
    let words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let parts = words.iter().flat_map(|word| {
        let value = word.split_once('=').map(|(_, value)| value);
        [Some(word.as_str()), value].into_iter().flatten().chain(word.split([',', '=']))
    });
    let odd: Vec<&str> = parts.filter(|part| matches!(printable(part), Cow::Owned(_))).collect();
    // The library breaks the lines of its help, but not those of its errors.
    let plain = error.render().to_string();
    let is_long = std::io::stderr().is_terminal() && terminal::fit_message(&plain) != plain;
    if !error.use_stderr() || odd.is_empty() && !is_long {
        error.exit();
    }
    // Without colours, odd words would lose part of their oddity.
    let text = error.render().ansi().to_string();
    let text = odd.iter().fold(text, |text, part| text.replace(part, &printable(part)));
    without_colours(&text).trim_end().lines().for_each(|line| daemon::tell!("{line}"));
    std::process::exit(error.exit_code())
}

/// Returns the text without the sequences that set colours (`ESC [ ... m`).
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default();
    let rest = parts.map(|part| part.split_once('m').map_or(part, |(_, rest)| rest));
    std::iter::once(first).chain(rest).collect()
}

/// Returns the same command, but with case ignored in its choices.
fn lenient(command: Command) -> Command {
    let command = command.mut_args(|argument| match argument.get_action().takes_values() {
        true => argument.ignore_case(true),
        false => argument,
    });
    command.mut_subcommands(lenient)
}

/// Returns the same command with paragraphs of one line each, which the help wraps at the
/// terminal's width. Indented lines, such as examples, stay unchanged.
pub(crate) fn reflowed(command: Command) -> Command {
    // The first sentence alone, as a list of commands has it.
    let short = command.get_about().map(|text| text.to_string().trim_end_matches('.').to_owned());
    let command = match short {
        Some(short) => command.about(short),
        None => command,
    };
    let texts = [command.get_long_about(), command.get_after_long_help()];
    let [about, after] = texts.map(|text| text.map(|text| joined(&text.to_string())));
    let command = match about {
        Some(about) => command.long_about(about),
        None => command,
    };
    let command = match after {
        Some(after) => command.after_long_help(after),
        None => command,
    };
    command.mut_subcommands(reflowed)
}

/// Joins the lines of each paragraph.
fn joined(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut may_join = false;
    for line in text.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ');
        if !out.is_empty() {
            out.push(if is_prose && may_join { ' ' } else { '\n' });
        }
        out.push_str(line);
        may_join = is_prose;
    }
    out
}

/// Adds the nearest choice to an error about an unknown one, if clap has found none.
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
    let near = stack::near(wrong, known.iter().map(String::as_str)).map(str::to_owned);
    if let Some(near) = near {
        error.insert(ContextKind::SuggestedValue, ContextValue::String(near));
    }
    error
}

/// Lets an error about an unknown command suggest only commands that a user runs: similar ones, or
/// those with the same name below another command.
fn with_commands(mut error: Error, tree: &Command) -> Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    if let Some(ContextValue::Strings(similar)) = error.remove(ContextKind::SuggestedSubcommand) {
        let is_hidden =
            |name: &String| tree.find_subcommand(name).is_some_and(|command| command.is_hide_set());
        let similar: Vec<String> = similar.into_iter().filter(|name| !is_hidden(name)).collect();
        if !similar.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(similar));
        }
    }
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let mut found = Vec::new();
    add_named(tree, wrong, tree.get_name(), &mut found);
    if !found.is_empty() {
        let tip = format!("there is {}", found.join(", "));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Adds the commands of this name, each with all its words, in quotes.
fn add_named(command: &Command, name: &str, path: &str, found: &mut Vec<String>) {
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        let path = format!("{path} {}", command.get_name());
        if command.get_name() == name {
            found.push(format!("'{path}'"));
        }
        add_named(command, name, &path, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(words: &[&str]) -> String {
        let mut command = reflowed(crate::Arguments::command());
        let error = command.try_get_matches_from_mut(words).expect_err("it is wrong");
        with_commands(with_nearest(error), &command).render().to_string()
    }

    #[test]
    fn unknown_commands_suggest_those_that_a_user_runs() {
        let hidden = error_of(&["overdrive", "serv"]);
        assert!(hidden.contains("'serve'") && !hidden.contains("supervise"), "{hidden}");
        let below = error_of(&["overdrive", "stats"]);
        assert!(below.contains("tip: there is 'overdrive volume stats'"), "{below}");
        let several = error_of(&["overdrive", "list"]);
        assert!(several.contains("'overdrive volume list', 'overdrive drive list'"), "{several}");
        assert!(!error_of(&["overdrive", "xyzzy"]).contains("tip"));
    }

    #[test]
    fn the_help_of_a_command_has_its_examples() {
        // The text of a subcommand's variant would replace that of its options.
        for path in ["volume set", "volume stats", "drive health", "bench compare", "attach"] {
            let words: Vec<&str> = ["overdrive"].into_iter().chain(path.split(' ')).collect();
            let mut command = reflowed(crate::Arguments::command());
            let help = command.try_get_matches_from_mut([&words[..], &["--help"]].concat());
            let help = help.expect_err("help").to_string();
            let examples = help.split_once("Examples:\n").map(|(_, rest)| rest.lines().next());
            let first = examples.flatten().unwrap_or_default();
            assert!(first.starts_with(&format!("  overdrive {path} ")), "{path}: {help}");
        }
    }

    #[test]
    fn no_command_has_a_full_stop_in_a_list() {
        fn check(command: &Command, path: &str) {
            for command in command.get_subcommands() {
                let path = format!("{path} {}", command.get_name());
                let about = command.get_about().map(ToString::to_string).unwrap_or_default();
                assert!(!about.is_empty() && !about.ends_with('.'), "{path}: {about}");
                check(command, &path);
            }
        }
        let command = reflowed(crate::Arguments::command());
        check(&command, "overdrive");
        let help = command.clone().render_long_help().to_string();
        assert!(!help.contains("NAME.\n"), "{help}");
    }

    #[test]
    fn paragraphs_are_one_line_and_examples_keep_theirs() {
        let text = "One two\nthree.\n\nFour\nfive:\n  overdrive a\n  overdrive b\nsix\nseven";
        let wanted = "One two three.\n\nFour five:\n  overdrive a\n  overdrive b\nsix seven";
        assert_eq!(joined(text), wanted);
    }
}
