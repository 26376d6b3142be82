//! All commands as one page in Markdown.

use std::fmt::Write as _;

use clap::{Arg, Command};

use crate::cli::exit;

const HEAD: &str = "# The command line

Written by the program from its own commands (`ingestd man --markdown`). `ingestd help COMMAND` says the same.

Commands that are about a node speak to its [HTTP API](api.md): at `--server` or `INGESTD_SERVER`, by default `http://127.0.0.1:8086`. A node with
tokens wants one, in the file of `--token-file` or in `INGESTD_TOKEN`; it is never shown.

- **Tables** fit `COLUMNS` or the terminal: text is cut (`…`), columns that matter least are left out, and where even that is too wide each row is a
  record. Into a pipe or a file lines are as long as they are. Colour is for terminals only, and never with `NO_COLOR`. Control characters in names are
  shown as `\\u{1b}`.
- **`--json`** prints one document: what the API answers, a list with all of its pages. What comes one after the other is a document a line: `batch watch`,
  `submit --wait`, `audit`, and actions on several things. Problems are sentences on stderr.
- **Lists** are whole, whatever their length; `--limit` bounds them.
- **What cannot be taken back** is asked about, with what follows from it, and what the depositor will not be told. `--yes` skips the question; where nobody can be asked, it is refused.
- **Actions on many jobs** take a filter. An empty one is an error without `--all`; `--dry-run` tells how many and which, and the
  command that does it to these: with `--expect N` nothing is done if another number matches then. A run has an id:
  after a break, `--run-id` goes on with it, and no job is touched twice.
- **`submit`** hands over a URL (the node fetches it), a file (uploaded), a directory (packed as a zip here, always the same for the same files, and uploaded as a
  container: one object), or with `--manifest` a Checkm manifest (uploaded) or the rows of a JSON list or of lines `URL LOCALID ARK` (within the submission). What is
  uploaded is digested first, so that the node sees whether it has arrived as it was sent.
- **Dates** are `2026-11-17T04:00:00Z`, or how long ago: `2h`, `3days`.

## Exit codes

| code | means |
|---|---|
";

const SERVER: &str = "server";

pub(super) fn markdown(mut command: Command) -> String {
    command.build();
    let mut page = HEAD.to_owned();
    for (code, means) in exit::CODES {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| {code} | {means} |");
    }
    page.push_str("\n## Options of all commands that speak to a node\n\n");
    if let Some(nodes) = command.find_subcommand("nodes") {
        let common =
            nodes.get_arguments().filter(|argument| is_common(argument) || argument.get_id() == "json");
        options(&mut page, common);
    }
    for child in command.get_subcommands().filter(|child| child.get_name() != "help") {
        section(&mut page, child, "ingestd", 2);
    }
    page
}

fn section(page: &mut String, command: &Command, above: &str, depth: usize) {
    let name = format!("{above} {}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = write!(page, "\n{} `{name}`\n\n{}\n", "#".repeat(depth), cell(&about));
    let speaks = command.get_arguments().any(|argument| argument.get_id() == SERVER);
    let own: Vec<_> = command
        .get_arguments()
        .filter(|argument| !(speaks && (is_common(argument) || argument.get_id() == "json")))
        .filter(|argument| {
            !argument.is_hide_set() && !matches!(argument.get_id().as_str(), "help" | "version")
        })
        .collect();
    if !own.is_empty() {
        page.push('\n');
        options(page, own.into_iter());
    }
    for child in command.get_subcommands().filter(|child| child.get_name() != "help") {
        section(page, child, &name, depth + 1);
    }
}

fn is_common(argument: &Arg) -> bool {
    matches!(argument.get_id().as_str(), SERVER | "token_file" | "ca_file")
}

fn options<'a>(page: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    page.push_str("| | |\n|---|---|\n");
    for argument in arguments {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(page, "| `{}` | {}{} |", shape(argument), cell(&help), more(argument));
    }
}

/// As it is written: `-p, --profile NAME`, `JOB...`.
fn shape(argument: &Arg) -> String {
    let takes = argument.get_action().takes_values();
    let id = argument.get_id().as_str().to_uppercase();
    let value = argument.get_value_names().and_then(|names| names.first()).map_or(id, ToString::to_string);
    if argument.is_positional() {
        let several = argument.get_num_args().is_some_and(|range| range.max_values() > 1);
        let value = if several { format!("{value}...") } else { value };
        return if argument.is_required_set() { value } else { format!("[{value}]") };
    }
    let mut text = argument.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    let _ = write!(text, "--{}", argument.get_long().unwrap_or_default());
    if takes { format!("{text} {value}") } else { text }
}

/// Default, variable and values.
fn more(argument: &Arg) -> String {
    let mut text = String::new();
    let names: Vec<_> = argument
        .get_possible_values()
        .into_iter()
        .filter(|_| argument.get_action().takes_values())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !names.is_empty() {
        let _ = write!(text, ": {}", names.join(", "));
    }
    if let Some(variable) = argument.get_env() {
        let _ = write!(text, "; `{}`", variable.to_string_lossy());
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let shown = argument.get_action().takes_values() && defaults.iter().any(|value| !value.is_empty());
    if shown {
        let _ = write!(text, "; default `{}`", defaults.join(", "));
    }
    text
}

/// Text within a table.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}
