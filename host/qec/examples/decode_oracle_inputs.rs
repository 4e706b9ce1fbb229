//! Writes models, check matrices and shots for other decoders to work on: `decode_oracle_inputs FOLDER`.
//!
//! `tests/data/decode/pymatching_oracle.py` says how they are used.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use ringcall_qec::code::{Basis, SurfaceCode};
use ringcall_qec::sample::Sampler;
use ringcall_qec::shots::{ShotFormat, ShotWriter};

#[path = "../tests/cases/mod.rs"]
mod cases;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("give the folder to write to")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    for case in cases::MEMORY {
        let model = case.model()?;
        std::fs::write(folder.join(format!("{}.dem", case.name())), model.to_string())?;
        write_shots(folder, &case.name(), Sampler::new(&model, case.seed())?, cases::SHOTS)?;
    }
    for case in cases::SLICES {
        let code = SurfaceCode::new(case.distance)?;
        let mut rows = File::create(folder.join(format!("{}.rows", case.name())))?;
        writeln!(rows, "{} {}", code.num_data(), case.slices())?;
        for row in code.check_matrix(Basis::Z) {
            let columns: Vec<String> = row.iter().map(u32::to_string).collect();
            writeln!(rows, "{}", columns.join(" "))?;
        }
        write_shots(folder, &case.name(), Sampler::new(&case.model(), case.seed())?, cases::RESIDUALS)?;
    }
    Ok(())
}

fn write_shots(
    folder: &Path,
    name: &str,
    mut sampler: Sampler,
    count: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let file = File::create(folder.join(format!("{name}.b8")))?;
    let mut writer = ShotWriter::new(file, ShotFormat::B8, sampler.layout())?;
    let mut shot = sampler.new_shot();
    for _ in 0..count {
        sampler.sample_into(&mut shot)?;
        writer.write(&shot)?;
    }
    writer.finish()?;
    Ok(())
}
