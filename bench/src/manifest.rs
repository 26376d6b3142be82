//! How many rows per second of a batch manifest are checked, and in how much memory.
//!
//! A manifest of a million rows is written to the disk and read whole, again and again, after a warm-up. The baseline is reading
//! the same file line by line and counting: what no reader of lines can be faster than. The memory is the
//! most that the process had while it checked, and what it had before.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use ingest_steps::manifest::{Kind, validate};

use crate::load::Span;
use crate::{Context, scratch};

const ROWS: u64 = 1_000_000;
const CASE: &str = "batch manifest of 1000000 rows";
const BASELINE: &str = "BufRead::read_line";
const BUFFER: usize = 256 << 10;

/// Runs the benchmark.
pub(crate) async fn run(context: Context) -> Result<()> {
    if !context.wants(CASE) {
        bail!("no such case; known is: {CASE}");
    }
    tokio::task::spawn_blocking(move || measure(&context)).await?
}

fn measure(context: &Context) -> Result<()> {
    context.report.plan(4);
    let dir = scratch::directory()?;
    let path = dir.path().join("manifest.checkm");
    {
        let _part = context.report.part("writing the manifest");
        write(&path, ROWS).context("writing the manifest")?;
    }
    let lines = |what: &str| {
        let _part = context.report.part(what);
        // The two lines before the rows and the one after.
        rate(context.span, || Ok(count_lines(&path)?.saturating_sub(3)))
    };
    let before = lines("read_line, before")?;
    let (per_s, had, peak) = {
        let _part = context.report.part(CASE);
        forget_the_peak()?;
        let had = memory("VmRSS:")?;
        let per_s = rate(context.span, || rows(&path))?;
        (per_s, had, memory("VmHWM:")?)
    };
    let baseline = f64::midpoint(before, lines("read_line, after")?);
    context.report.print(&context.report.row(CASE, per_s, "per_s").against(BASELINE, baseline))?;
    context.report.print(&context.report.row(format!("{CASE}, most memory"), peak, "MiB"))?;
    context.report.print(&context.report.row(format!("{CASE}, memory before"), had, "MiB"))?;
    Ok(())
}

/// Rows per second of whole passes, as many as begin within the time, after those of the warm-up; at least one of each.
fn rate(span: Span, pass: impl Fn() -> Result<u64>) -> Result<f64> {
    let passes = |time: Duration| {
        let begun = Instant::now();
        let mut rows = 0;
        loop {
            let found = pass()?;
            ensure!(found == ROWS, "{found} rows were read, and {ROWS} are there");
            rows += found;
            if begun.elapsed() >= time {
                return Ok((rows, begun.elapsed()));
            }
        }
    };
    passes(span.warm_up)?;
    let (rows, took) = passes(span.measured)?;
    // Far below the 2^52 that a float counts exactly.
    #[allow(clippy::cast_precision_loss)]
    let rows = rows as f64;
    Ok(rows / took.as_secs_f64())
}

/// Writes a batch manifest of so many rows.
pub(crate) fn write(path: &Path, rows: u64) -> Result<()> {
    let mut file = BufWriter::with_capacity(BUFFER, File::create(path)?);
    write!(file, "#%checkm_0.7\n#%profile | {}\n", Kind::SingleFileBatch.profile())?;
    for n in 0..rows {
        writeln!(
            file,
            "https://files.example.org/deposits/2026/herbarium/sheet-{n:07}.tif | sha-256 | {:064x} | {} | \
             2026-01-31T12:00:00Z | sheet-{n:07}.tif | | herbarium:{n:07};barcode:{:09} | Lindqvist, A. | \
             Sheet {n} of the herbarium | 1907",
            u128::from(n) * 0x9e37_79b9_7f4a_7c15,
            50_000_000 + n,
            n * 7,
        )?;
    }
    writeln!(file, "#%eof")?;
    file.flush()?;
    file.get_ref().sync_all()?;
    Ok(())
}

fn rows(path: &Path) -> Result<u64> {
    Ok(validate(BufReader::with_capacity(BUFFER, File::open(path)?))?.rows)
}

fn count_lines(path: &Path) -> Result<u64> {
    let mut file = BufReader::with_capacity(BUFFER, File::open(path)?);
    let (mut line, mut count) = (String::new(), 0);
    while file.read_line(&mut line)? > 0 {
        line.clear();
        count += 1;
    }
    Ok(count)
}

/// The kernel counts the most memory from here on.
fn forget_the_peak() -> Result<()> {
    std::fs::write("/proc/self/clear_refs", "5").context("the peak of memory cannot be reset")
}

/// A line of the kernel's account of this process, in MiB.
fn memory(name: &str) -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes: u32 = line
        .and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok())
        .with_context(|| format!("no {name} in /proc/self/status"))?;
    Ok(f64::from(kibibytes) / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_counted() {
        let dir = scratch::directory().unwrap();
        let path = dir.path().join("manifest.checkm");
        write(&path, 300).unwrap();
        assert_eq!((rows(&path).unwrap(), count_lines(&path).unwrap()), (300, 303));
        let bytes = std::fs::metadata(&path).unwrap().len();
        assert!((220..320).contains(&(bytes / 300)), "{bytes} bytes");
    }

    #[test]
    fn memory_is_told() {
        forget_the_peak().unwrap();
        assert!(memory("VmHWM:").unwrap() >= 1.0);
        assert!(memory("VmNothing:").is_err());
    }
}
