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
