//! The same for several things that were named.
//!
//! **When things break.** One that is refused does not keep the others from their turn; if it was the only one, it
//! decides the exit code. A node that is gone ends it.

use anyhow::Result;
use serde::Serialize;
use serde_json::json;

use super::client::Output;
use super::exit::Failed;
use super::screen::Screen;

/// Does it for each, and prints an answer each: as JSON, or as a sentence.
pub(super) async fn each<T: Serialize>(
    names: &[String],
    output: Output,
    act: impl AsyncFn(&str) -> Result<T>,
    told: impl Fn(&T) -> String,
) -> Result<()> {
    let screen = Screen::stdout();
    let mut refused = 0;
    for name in names {
        match act(name).await {
            Ok(answer) if output.json => output.line(&answer)?,
            Ok(answer) => screen.say(&told(&answer))?,
            Err(error) if names.len() == 1 => return Err(error),
            Err(error) => {
                let Some(Failed::Problem(problem)) = error.downcast_ref() else { return Err(error) };
                if output.json {
                    output.line(&json!({ "id": name, "problem": problem }))?;
                }
                Screen::complain(&format!("{name}: {error:#}"));
                refused += 1;
            }
        }
    }
    if refused == 0 {
        return Ok(());
    }
    Err(Failed::NotAll(format!("{refused} of {} were refused", names.len())).into())
}
