//! The kernels' PTX, deflated: a fifth of the text, which is most of what a program would carry.

use miniz_oxide::deflate::compress_to_vec;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

const FOLDER: &str = "../../kernels-cu/predecoder/ptx";
/// What `gzip` takes by default.
const LEVEL: u8 = 6;

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    for file in fs::read_dir(FOLDER)? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "ptx") {
            deflate(&path, &out)?;
        }
    }
    Ok(())
}

fn deflate(path: &Path, out: &Path) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".deflated");
    fs::write(out.join(name), compress_to_vec(&fs::read(path)?, LEVEL))
}
