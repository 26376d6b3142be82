//! `ingestd`: the process. The command line is in [`cli`], one command a file.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
