//! Grid of a sweep: its points, and the models of files.

use crate::usage::misuse;
use anyhow::{Result, bail};
use ringcall_decoder_service::study::{GivenModel, Point};
use ringcall_qec::dem::DetectorErrorModel;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Files of models, separated by commas. A comma ends a file's name if the file's extension precedes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Files(pub(super) Vec<PathBuf>);

impl FromStr for Files {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut names: Vec<String> = Vec::new();
        for part in text.split(',') {
            match names.last_mut() {
                Some(name) if !name.ends_with(".stim") && !name.ends_with(".dem") => {
                    name.push(',');
                    name.push_str(part);
                }
                _ => names.push(part.to_owned()),
            }
        }
        if names.iter().any(String::is_empty) {
            return Err("name a file".to_owned());
        }
        Ok(Self(names.into_iter().map(PathBuf::from).collect()))
    }
}

/// The points of a sweep and their models.
#[derive(Debug, Default)]
pub(super) struct Grid {
    pub(super) points: Vec<Point>,
    pub(super) models: BTreeMap<u64, DetectorErrorModel>,
    /// Names of files by name of the point.
    pub(super) names: Names,
}

/// Names of files by name of the point.
pub(super) type Names = BTreeMap<String, String>;

impl Grid {
    pub(super) fn add(&mut self, point: Point) -> Result<()> {
        if self.points.contains(&point) {
            bail!(misuse(format!("{point} is there twice")));
        }
        self.points.push(point);
        Ok(())
    }

    /// Adds a file's model, about which the file's name may state more.
    pub(super) fn add_model(&mut self, path: &Path, model: DetectorErrorModel) -> Result<()> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let Said { distance, rounds, p } = Said::of(&name);
        let given = GivenModel { digest: digest(&model), observables: model.num_observables };
        let point = Point::of_model(given, distance, rounds, p);
        if let Some(other) = self.names.get(&point.to_string()) {
            bail!(misuse(format!("{} is the same model as {other}", path.display())));
        }
        self.names.insert(point.to_string(), name);
        self.models.insert(given.digest, model);
        self.add(point)
    }
}

/// The first eight bytes of the SHA-256 of the model's text.
fn digest(model: &DetectorErrorModel) -> u64 {
    let digest = Sha256::digest(model.to_string().as_bytes());
    digest.iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Facts in a file's name, in sinter's form: `d=5,r=5,p=0.003`. Missing ones are 0.
#[derive(Debug, Default, PartialEq)]
struct Said {
    distance: u32,
    rounds: u32,
    p: f64,
}

impl Said {
    fn of(name: &str) -> Self {
        let mut said = Self::default();
        for (key, value) in name.split(',').filter_map(|pair| pair.split_once('=')) {
            let number = || value.trim().parse::<u32>().unwrap_or(0);
            match key.trim() {
                "d" | "distance" => said.distance = number(),
                "r" | "rounds" => said.rounds = number(),
                "p" | "noise" => {
                    let p = value.trim().parse().ok().filter(|p: &f64| *p > 0.0 && *p < 1.0);
                    said.p = p.unwrap_or(0.0);
                }
                _ => {}
            }
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_a_files_name_belongs_to_it() {
        let names = |text: &str| text.parse::<Files>().map(|Files(paths)| paths);
        let paths = |names: &[&str]| Ok(names.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(names("a.dem"), paths(&["a.dem"]));
        assert_eq!(names("d=3,p=0.1.stim,x/d=5,p=0.1.stim"), paths(&["d=3,p=0.1.stim", "x/d=5,p=0.1.stim"]));
        assert_eq!(names("a.dem,b.dem"), paths(&["a.dem", "b.dem"]));
        assert!(names("").is_err() && names("a.dem,").is_err());
    }

    #[test]
    fn names_say_distance_rounds_and_noise() {
        assert_eq!(Said::of("d=5,r=7,p=0.003"), Said { distance: 5, rounds: 7, p: 0.003 });
        assert_eq!(Said::of("b=X,distance=3"), Said { distance: 3, ..Said::default() });
        for nothing in ["mine", "d=x,p=nan,r=-1", "p=2", "="] {
            assert_eq!(Said::of(nothing), Said::default(), "{nothing}");
        }
    }
}
