//! Completion of words by bash, with the installed script.

use std::path::Path;
use std::process::Command;

/// Returns the candidates for the last of these words, as bash has split them; `line` is the line
/// up to the cursor.
fn candidates(words: &[&str], line: &str) -> Vec<String> {
    let overdrive = Path::new(env!("CARGO_BIN_EXE_overdrive"));
    let directory = tempfile::tempdir().expect("a directory");
    let mut write = Command::new(overdrive);
    write.args(["manual"]).arg(directory.path());
    assert!(write.status().expect("it starts").success());
    let script = directory.path().join("bash/overdrive");
    let call = r#"
        source "$SCRIPT"
        [[ $(complete -p overdrive) == *_overdrive_with_colons* ]] || exit 9
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_POINT=${#COMP_LINE} COMP_TYPE=9
        _overdrive_with_colons overdrive "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let path = std::env::var("PATH").unwrap_or_default();
    let bin = overdrive.parent().expect("a directory").display();
    let mut bash = Command::new("bash");
    bash.args(["-c", call, "bash"]).args(words).current_dir(directory.path());
    bash.env("PATH", format!("{bin}:{path}")).env("SCRIPT", &script).env("COMP_LINE", line);
    let output = bash.output().expect("bash can be started");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn words_with_colons_are_completed_from_their_last_colon() {
    let words = ["overdrive", "serve", "model", ":", "samsung-840-evo-2"];
    let found = candidates(&words, "overdrive serve model:samsung-840-evo-2");
    assert_eq!(found, ["samsung-840-evo-250"]);
    let found = candidates(&words[..4], "overdrive serve model:");
    assert!(found.contains(&"samsung-840-evo-250".to_owned()), "{found:?}");
    // A word after a colon and a blank is a word of its own.
    let words = ["overdrive", "serve", "ram", ":", "1G", "--memo"];
    assert_eq!(candidates(&words, "overdrive serve ram:1G --memo"), ["--memory"]);
    let words = ["overdrive", "drive", "models", "samsung-840-evo-2"];
    let found = candidates(&words, "overdrive drive models samsung-840-evo-2");
    assert_eq!(found, ["samsung-840-evo-250"]);
}

#[test]
fn zsh_and_fish_are_answered_with_words_and_their_meanings() {
    let overdrive = Path::new(env!("CARGO_BIN_EXE_overdrive"));
    let answer = |shell: &str, words: &[&str]| {
        let mut command = Command::new(overdrive);
        command.arg("--").args(words).env("COMPLETE", shell).env("_CLAP_IFS", "\n");
        command.env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{shell} {words:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    for (shell, between) in [("zsh", ':'), ("fish", '\t')] {
        let values = |words: &[&str]| {
            let answer = answer(shell, words);
            let values = answer.lines().map(|line| line.split(between).next().unwrap_or_default());
            values.map(str::to_owned).collect::<Vec<_>>()
        };
        let levels = values(&["overdrive", "serve", "--log-level", ""]);
        assert_eq!(levels, ["error", "notice", "debug"], "{shell}");
        assert_eq!(values(&["overdrive", "attach", "--via", "f"]), ["fuse"], "{shell}");
        assert_eq!(values(&["overdrive", "serve", "--guard", ""]), ["on", "off"], "{shell}");
        assert_eq!(values(&["overdrive", "volume", "set", "warm="]).len(), 2, "{shell}");
    }
}

/// Returns the output of a shell with the installed script. None: the shell is not installed.
fn in_shell(shell: &str, program: &str) -> Option<String> {
    let overdrive = Path::new(env!("CARGO_BIN_EXE_overdrive"));
    let directory = tempfile::tempdir().expect("a directory");
    let mut write = Command::new(overdrive);
    assert!(write.arg("manual").arg(directory.path()).status().expect("it starts").success());
    let path = std::env::var("PATH").unwrap_or_default();
    let bin = overdrive.parent().expect("a directory").display();
    let mut command = Command::new(shell);
    command.args(["-c", program]).env("PATH", format!("{bin}:{path}"));
    command.env("HOME", directory.path()).current_dir(directory.path());
    let output = command.output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).expect("text"))
}

#[test]
fn the_script_of_fish_completes_words() {
    let program = "source fish/overdrive.fish; complete -C 'overdrive serve --readahead '";
    let Some(found) = in_shell("fish", program) else { return };
    let words: Vec<&str> = found.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(words, ["on", "off"]);
}

#[test]
fn the_script_of_zsh_completes_words() {
    // The function of the completion, with its helper replaced by one that prints the candidates.
    let program = r#"
        compdef() { :; }
        _describe() { print -l -- "${other[@]}"; }
        source zsh/_overdrive
        words=(overdrive attach --via "") CURRENT=4
        _clap_dynamic_completer_overdrive
    "#;
    let Some(found) = in_shell("zsh", program) else { return };
    let words: Vec<&str> = found.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(words, ["ublk", "fuse", "nbd"]);
}
