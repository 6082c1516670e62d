//! Builds the kernel image, and prints its path; with `--vmm` also the monitor of virtual machines,
//! beside it; with `--code` it compares the locks' verbs in it instead.

use anyhow::{Context, Result, bail};
use overlock_kernels::{build, code};
use std::io::{Write as _, stdout};
use std::process::ExitCode;

fn run() -> Result<bool> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let image = match words[..] {
        [] | ["--code"] => build::image(),
        ["--vmm"] => build::with_vmm(),
        _ => bail!("image [--vmm | --code]"),
    };
    let image = image?.context("interrupted")?;
    let (text, is_fine) = match words[..] {
        ["--code"] => code::check(&image)?,
        _ => (format!("{}\n", image.display()), true),
    };
    stdout().write_all(text.as_bytes())?;
    Ok(is_fine)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::from(2)
        }
    }
}
