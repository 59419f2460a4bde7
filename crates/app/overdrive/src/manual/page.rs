//! A manual page: the command's description and options from its definition, and the sections that
//! a definition lacks.

use super::facts;
use clap::Command;
use clap_mangen::Man;
use roff::{Inline, Roff, bold, italic, roman};

/// Returns the name of a command's page: `overdrive-volume-list`.
pub(super) fn name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// Returns the subcommands that are documented.
pub(super) fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help")
}

/// Returns the source of a command's page.
pub(super) fn text(command: Command, date: &str) -> String {
    let name = name(&command);
    let about = command.get_long_about().or(command.get_about());
    let (description, examples) = split(&about.map(ToString::to_string).unwrap_or_default());
    let after = command.get_after_long_help().or(command.get_after_help());
    let after = after.map(ToString::to_string);
    let mut own = Roff::default();
    heading(&mut own, "DESCRIPTION");
    prose(&mut own, &description);
    commands(&mut own, &command);
    let mut last = Roff::default();
    if let Some(after) = after {
        heading(&mut last, "NOTES");
        prose(&mut last, &after);
    }
    if !examples.is_empty() {
        heading(&mut last, "EXAMPLES");
        verbatim(&mut last, &examples);
    }
    facts(&mut last, &name);
    see_also(&mut last, &name, &command);
    assemble(without_full_stop(command), date, &own, &last)
}

/// Returns the same command; its short description, which whatis(1) prints, has no full stop.
fn without_full_stop(command: Command) -> Command {
    match command.get_about().map(ToString::to_string) {
        Some(about) => command.about(about.trim_end_matches('.').to_owned()),
        None => command,
    }
}

/// Puts the sections of the definition and the other ones in their order.
fn assemble(command: Command, date: &str, own: &Roff, last: &Roff) -> String {
    let source = format!("Overdrive {}", env!("CARGO_PKG_VERSION"));
    let has_options = command.get_arguments().any(|argument| !argument.is_hide_set());
    let man = Man::new(command).date(date).source(source).manual("Overdrive's manual");
    let mut page = Vec::new();
    let in_memory = "a page is written to memory";
    man.render_title(&mut page).expect(in_memory);
    man.render_name_section(&mut page).expect(in_memory);
    man.render_synopsis_section(&mut page).expect(in_memory);
    own.to_writer(&mut page).expect(in_memory);
    if has_options {
        man.render_options_section(&mut page).expect(in_memory);
    }
    last.to_writer(&mut page).expect(in_memory);
    String::from_utf8(page).expect("the definitions are text")
}

/// Splits a description from its examples, which are the indented lines at its end.
fn split(about: &str) -> (String, Vec<String>) {
    let heading = about.lines().position(|line| line == "Examples:" || line == "Example:");
    let Some(heading) = heading else { return (about.to_owned(), Vec::new()) };
    let description: Vec<&str> = about.lines().take(heading).collect();
    let examples = about.lines().skip(heading + 1).map(|line| line.trim_start().to_owned());
    (description.join("\n").trim_end().to_owned(), examples.collect())
}

fn heading(page: &mut Roff, text: &str) {
    page.control("SH", [text]);
}

/// Adds paragraphs. Indented lines keep their ends.
fn prose(page: &mut Roff, text: &str) {
    let mut is_verbatim = false;
    for line in text.lines() {
        let is_indented = line.starts_with(' ');
        if is_indented != is_verbatim {
            page.control(if is_indented { "nf" } else { "fi" }, []);
            is_verbatim = is_indented;
        }
        match line.trim().is_empty() {
            true => page.control("PP", []),
            false => page.text([roman(line)]),
        };
    }
    if is_verbatim {
        page.control("fi", []);
    }
}

fn verbatim(page: &mut Roff, lines: &[String]) {
    page.control("nf", []);
    for line in lines {
        page.text([roman(line.as_str())]);
    }
    page.control("fi", []);
}

/// Adds the subcommands, each with the name of its page.
fn commands(page: &mut Roff, command: &Command) {
    if visible(command).next().is_none() {
        return;
    }
    heading(page, "COMMANDS");
    for one in visible(command) {
        let about = one.get_about().map(ToString::to_string).unwrap_or_default();
        item(page, reference(&name(one)), &about);
    }
}

/// Adds an item of a list.
fn item(page: &mut Roff, head: impl IntoIterator<Item = Inline>, text: &str) {
    page.control("TP", []);
    page.text(head.into_iter().collect::<Vec<_>>());
    page.text([roman(text)]);
}

fn reference(name: &str) -> [Inline; 2] {
    [bold(name), roman("(1)")]
}

/// Adds statuses, files and variables.
fn facts(page: &mut Roff, name: &str) {
    heading(page, "EXIT STATUS");
    for (status, text) in facts::statuses(name) {
        item(page, [bold(status.to_string())], text);
    }
    let files = facts::files(name);
    if !files.is_empty() {
        heading(page, "FILES");
        files.iter().for_each(|(path, text)| item(page, [italic(*path)], text));
    }
    let variables = facts::variables(name);
    if !variables.is_empty() {
        heading(page, "ENVIRONMENT");
        variables.iter().for_each(|(variable, text)| item(page, [bold(*variable)], text));
    }
}

/// Adds references: to the command above, to those below, and to related pages.
fn see_also(page: &mut Roff, name: &str, command: &Command) {
    heading(page, "SEE ALSO");
    let mut own: Vec<String> = visible(command).map(self::name).collect();
    own.extend(facts::related(name).iter().map(|&related| related.to_owned()));
    if let Some((above, _)) = name.rsplit_once('-').filter(|_| !own.iter().any(|one| one == name)) {
        own.push(above_of(above));
    }
    own.retain(|one| one != name);
    own.sort();
    own.dedup();
    let mut line = Vec::new();
    for one in &own {
        line.extend(reference(one));
        line.push(roman(", "));
    }
    for other in facts::OTHERS {
        line.push(roman(format!("{other}, ")));
    }
    line.push(roman("/usr/share/doc/overdrive"));
    page.text(line);
}

/// Returns the command above: a name of several words, as `clear-error`, has a hyphen, too.
fn above_of(name: &str) -> String {
    match name.split('-').collect::<Vec<_>>().as_slice() {
        ["overdrive", group @ ("volume" | "drive" | "bench" | "pool"), ..] => {
            format!("overdrive-{group}")
        }
        _ => "overdrive".to_owned(),
    }
}
