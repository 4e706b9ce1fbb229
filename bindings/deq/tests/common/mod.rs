//! The shared library that was built for these tests.

use std::path::{Path, PathBuf};

/// The library of this package: beside the test.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let beside = |folder: Option<&Path>| folder.map(|folder| folder.join("libringcall_deq.so"));
    let paths = [beside(test.parent()), beside(test.parent().and_then(Path::parent))];
    paths.into_iter().flatten().find(|path| path.is_file()).expect("the library was built")
}
