//! The experiments that the command brings along, and those of the user's files.

use crate::added::Added;
use anyhow::{Result, anyhow};
use std::borrow::Cow;
use std::path::Path;

macro_rules! built_in {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../experiments/", $name, ".toml")))),*]
    };
}

/// The experiments whose files are part of the command: each file's name without `.toml`, and its
/// text.
const BUILT_IN: &[(&str, &str)] = built_in! {
    "quick" "full" "by-hand"
    "half" "tour" "tour-16x" "yields" "timer" "by-hand-vcpus"
    "micro" "wake-5us" "wake-50us" "wake-150us"
};

/// Returns the text of an experiment: of a file, if there is one of this name or the name ends in
/// `.toml`, or of a built-in or an added experiment.
pub(crate) fn text(name: &Path, added: &Added) -> Result<Cow<'static, str>> {
    let mut known = BUILT_IN.iter().chain(added.experiments);
    match known.find(|(known, _)| name == Path::new(known)) {
        Some((_, text)) if !name.exists() => Ok((*text).into()),
        _ => std::fs::read_to_string(name).map(Cow::Owned).map_err(|error| {
            let known = BUILT_IN.iter().chain(added.experiments);
            let names: Vec<_> = known.map(|(name, _)| *name).collect();
            anyhow!("can't read {}: {error}; built in are {}", name.display(), names.join(", "))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_of_the_folder_is_built_in() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/experiments");
        let files = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
        let mut found: Vec<_> = files
            .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        found.sort();
        let mut known: Vec<_> = BUILT_IN.iter().map(|(name, _)| *name).collect();
        known.sort_unstable();
        assert_eq!(found, known);
    }
}
