//! Writes the circuits of bicycle and colour codes for Stim to analyse, as `NAME.stim`: `code_circuits FOLDER`.
//!
//! `tests/data/codes/stim_oracle.py` says how they are used.

use std::path::Path;

#[path = "../tests/codes/mod.rs"]
mod codes;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("give the folder to write to")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    for name in codes::names() {
        std::fs::write(folder.join(format!("{name}.stim")), codes::circuit(&name)?.to_string())?;
    }
    Ok(())
}
