//! A machine's files under any root, and the environment variables that name further files.

use rustix::fs::Access;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// More bytes than any file that is read here.
const LONGEST: u64 = 1 << 22;

/// A machine to examine. Paths are those of the machine itself.
#[derive(Debug)]
pub(crate) struct Machine {
    root: PathBuf,
    environment: BTreeMap<String, String>,
}

impl Machine {
    /// The machine whose file system is at `root`, with the environment of this process.
    pub(crate) fn at(root: &Path) -> Self {
        Self::with_environment(
            root,
            std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
        )
    }

    pub(super) fn with_environment(
        root: &Path,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        Self { root: root.to_owned(), environment: environment.into_iter().collect() }
    }

    fn real(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The file's text without surrounding white space; `None` for an empty or unreadable file.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        let mut bytes = Vec::new();
        std::fs::File::open(self.real(path)).ok()?.take(LONGEST).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// The text after `name` and a colon in a file of such lines.
    pub(crate) fn field(&self, path: &str, name: &str) -> Option<String> {
        self.text(path)?.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    }

    pub(crate) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.real(path).exists()
    }

    /// Whether this process may read and write the file, which drivers require for their devices.
    pub(super) fn usable(&self, path: &str) -> bool {
        rustix::fs::access(self.real(path), Access::READ_OK | Access::WRITE_OK).is_ok()
    }

    /// The environment variable, unless it is empty.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// All files and folders that match a pattern with `*`, sorted.
    pub(super) fn glob(&self, pattern: &str) -> Vec<String> {
        let root = glob::Pattern::escape(&self.root.to_string_lossy());
        let pattern = format!("{}/{}", root.trim_end_matches('/'), pattern.trim_start_matches('/'));
        // A pattern or folder that cannot be read matches nothing.
        let found = glob::glob(&pattern).into_iter().flatten().flatten();
        found.filter_map(|path| Some(format!("/{}", path.strip_prefix(&self.root).ok()?.to_str()?))).collect()
    }

    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let paths = self.glob(&format!("{folder}/*"));
        paths.iter().filter_map(|path| Some(path.rsplit_once('/')?.1.to_owned())).collect()
    }

    /// The files that match `name`, which may have `*`, in these folders; a file with several names counts once.
    pub(super) fn find(&self, folders: &[String], name: &str) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let all =
            folders.iter().flat_map(|folder| self.glob(&format!("{}/{name}", glob::Pattern::escape(folder))));
        all.filter(|path| {
            let real = self.real(path);
            seen.insert(real.canonicalize().unwrap_or(real))
        })
        .collect()
    }

    /// Paths of the programs with these names on the search path.
    pub(super) fn programs(&self, names: &[&str]) -> Vec<String> {
        let folders = self.list("PATH");
        names.iter().flat_map(|name| self.find(&folders, name)).collect()
    }

    /// The same as [`find`](Self::find) in folders given by patterns.
    pub(super) fn find_in(&self, folders: &[&str], name: &str) -> Vec<String> {
        let folders: Vec<String> = folders.iter().flat_map(|folder| self.glob(folder)).collect();
        self.find(&folders, name)
    }

    /// The folders that the dynamic linker searches, and some into which containers put drivers.
    pub(super) fn library_folders(&self) -> Vec<String> {
        let mut folders: Vec<String> = self.list("LD_LIBRARY_PATH");
        for file in ["/etc/ld.so.conf".to_owned()].into_iter().chain(self.glob("/etc/ld.so.conf.d/*.conf")) {
            let text = self.text(&file).unwrap_or_default();
            folders
                .extend(text.lines().map(str::trim).filter(|line| line.starts_with('/')).map(str::to_owned));
        }
        let folders_of_packages = [
            "/usr/lib/*-linux-gnu",
            "/usr/lib64",
            "/usr/lib",
            "/lib/*-linux-gnu",
            "/lib64",
            "/lib",
            "/usr/local/lib",
            "/usr/local/nvidia/lib64",
            "/usr/lib/wsl/lib",
        ];
        folders.extend(folders_of_packages.iter().flat_map(|pattern| self.glob(pattern)));
        unique(folders)
    }

    /// The folders of Python's packages, for every Python found.
    pub(super) fn python_folders(&self) -> Vec<String> {
        let prefix = |folder: String| folder.strip_suffix("/bin").map(str::to_owned);
        let mut prefixes: Vec<String> = self.list("PATH").into_iter().filter_map(prefix).collect();
        prefixes.extend(
            ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(|name| self.variable(name)).map(str::to_owned),
        );
        if let Some(home) = self.variable("HOME") {
            prefixes.push(format!("{home}/.local"));
            let pyenv = self.variable("PYENV_ROOT").map_or_else(|| format!("{home}/.pyenv"), str::to_owned);
            prefixes.extend(self.glob(&format!("{}/versions/*", glob::Pattern::escape(&pyenv))));
        }
        prefixes.extend(["/usr".to_owned(), "/usr/local".to_owned()]);
        let packages = |prefix: &String| {
            let prefix = glob::Pattern::escape(prefix);
            ["lib/python3*/site-packages", "lib/python3*/dist-packages", "lib/python3/dist-packages"]
                .iter()
                .flat_map(|folder| self.glob(&format!("{prefix}/{folder}")))
                .collect::<Vec<_>>()
        };
        unique(unique(prefixes).iter().flat_map(packages))
    }

    /// The absolute paths in a variable such as `PATH`.
    fn list(&self, name: &str) -> Vec<String> {
        let paths = self.variable(name).unwrap_or_default().split(':');
        paths
            .map(|path| path.trim_end_matches('/'))
            .filter(|path| path.starts_with('/'))
            .map(str::to_owned)
            .collect()
    }
}

fn unique(paths: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    paths.into_iter().filter(|path| seen.insert(path.clone())).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A simulated machine with these files; a name that ends in `/` is a folder.
    pub(crate) fn made_up(
        files: &[(&str, &str)],
        environment: &[(&str, &str)],
    ) -> (tempfile::TempDir, Machine) {
        // A name that would be a pattern if it were not escaped.
        let root = tempfile::Builder::new().prefix("root[*]").tempdir().unwrap();
        for (path, content) in files {
            let path_there = root.path().join(path.trim_start_matches('/'));
            if path.ends_with('/') {
                std::fs::create_dir_all(path_there).unwrap();
            } else {
                std::fs::create_dir_all(path_there.parent().unwrap()).unwrap();
                std::fs::write(path_there, content).unwrap();
            }
        }
        let environment = environment.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let machine = Machine::with_environment(root.path(), environment);
        (root, machine)
    }

    #[test]
    fn files_are_found_under_the_root_and_once() {
        let (root, machine) = made_up(
            &[
                ("/usr/lib/x-linux-gnu/liba.so.1", ""),
                ("/opt/b/liba.so.2", ""),
                ("/etc/ld.so.conf.d/b.conf", "# no\n/opt/b\n"),
            ],
            &[("LD_LIBRARY_PATH", "/usr/lib/x-linux-gnu/:relative:"), ("EMPTY", "")],
        );
        std::os::unix::fs::symlink("usr/lib", root.path().join("lib")).unwrap();
        let found = machine.find(&machine.library_folders(), "liba.so*");
        assert_eq!(found, ["/usr/lib/x-linux-gnu/liba.so.1", "/opt/b/liba.so.2"]);
        assert_eq!(machine.names("/usr/lib/x-linux-gnu"), ["liba.so.1"]);
        assert!(machine.names("/none").is_empty() && machine.variable("EMPTY").is_none());
    }

    #[test]
    fn every_python_in_sight_is_searched() {
        let folder = "lib/python3.12/site-packages";
        let (_root, machine) = made_up(
            &[
                (&format!("/opt/venv/{folder}/"), ""),
                (&format!("/home/u/.pyenv/versions/3.12/{folder}/"), ""),
                ("/usr/lib/python3/dist-packages/", ""),
            ],
            &[("PATH", "/opt/venv/bin:/usr/bin:/opt/venv/bin"), ("HOME", "/home/u")],
        );
        let expected = [
            format!("/opt/venv/{folder}"),
            "/usr/lib/python3/dist-packages".to_owned(),
            format!("/home/u/.pyenv/versions/3.12/{folder}"),
        ];
        assert_eq!(machine.python_folders(), expected);
    }
}
