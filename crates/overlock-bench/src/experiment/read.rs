//! From a file's text to an experiment that makes sense.

use super::{Experiment, Workload, check};
use crate::Document;
use overlock_results::Error;

impl Experiment {
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let document = Document::new(file, text);
        let mut experiment: Self = document.read()?;
        let name = document.name();
        name.clone_into(&mut experiment.name);
        if let Workload::Own(profile) = &mut experiment.workload
            && profile.name.is_empty()
        {
            name.clone_into(&mut profile.name);
        }
        check::factors(&experiment, &document)?;
        check::published(&experiment, &document)?;
        check::host(&experiment.host, &document)?;
        check::workload(&experiment, &document)?;
        Ok(experiment)
    }
}
