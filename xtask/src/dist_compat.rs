//! The tree that replaces an installed CUDA-Q Realtime, for builds that take `CUDAQ_REALTIME_ROOT`.
//!
//! Libraries and CMake targets have the reference's names. The functions of the host dispatcher are in the shared library, so
//! that a program has one copy of its state; the archive of that name is there for build files that name it. The archive of the
//! UDP transport is whole: nothing else needs to be linked with it.

use crate::dist_names::{LISTING, SONAME, symlink};
use crate::files::{emptied, folder, read, text, write};
use crate::ptx::Cuda;
use crate::shell::{Shell, run};
use anyhow::{Context, Result};
use std::path::Path;

/// What every function of the UDP transport's archive begins with.
const UDP: &str = "cpu_udp_";
/// From PyPI, where the machine has no `cmake`.
const CMAKE_PACKAGE: &str = "cmake==4.*";

/// Makes `compat/` in the installed tree `out`; `archive` is the static library.
pub(crate) fn make(shell: &Shell, out: &Path, archive: &Path) -> Result<()> {
    let compat = emptied(out.join("compat"))?;
    symlink("../include", &compat.join("include"))?;
    let lib = folder(compat.join("lib"))?;
    symlink(&format!("../../lib/{SONAME}"), &lib.join(SONAME))?;
    for (package, name) in [("libringcall.so", "libcudaq-realtime.so"), (BRIDGE_UDP, BRIDGE_UDP)] {
        symlink(&format!("../../lib/{package}"), &lib.join(name))?;
    }
    // Dangling where the tree has no device archive; the CMake configuration looks.
    symlink("../../lib/libringcall_device.a", &lib.join("libcudaq-realtime-dispatch.a"))?;
    let work = emptied(shell.target("dist-compat"))?;
    host_dispatch(shell, &work, &lib)?;
    udp_transport(shell, &work, &lib, archive)?;
    let cmake = folder(lib.join("cmake/cudaq-realtime"))?;
    write(&cmake.join("cudaq-realtime-config.cmake"), CMAKE)
}

/// The UDP provider, which has the reference's file name everywhere.
const BRIDGE_UDP: &str = "libcudaq-realtime-bridge-udp.so";

/// An archive of one object that holds nothing but its own name: the functions are the shared library's.
fn host_dispatch(shell: &Shell, work: &Path, lib: &Path) -> Result<()> {
    let (source, object) = (work.join("host_dispatch.c"), work.join("host_dispatch.o"));
    write(&source, "const char ringcall_host_dispatch_is_in[] = \"libcudaq-realtime.so\";\n")?;
    run(&mut shell.command("cc", &["-c", "-fPIC", "-o", &text(&object), &text(&source)]))?;
    archived(shell, &lib.join("libcudaq-realtime-host-dispatch.a"), &object)
}

/// An archive of one object: the UDP transport with all that it calls, of which its own functions alone are visible. So it is
/// linked beside any other Rust library.
fn udp_transport(shell: &Shell, work: &Path, lib: &Path, archive: &Path) -> Result<()> {
    let listing = read(&shell.root().join(LISTING))?;
    let names: Vec<&str> = listing.lines().filter(|name| name.starts_with(UDP)).collect();
    let (whole, object, visible) = (work.join("whole.o"), work.join("udp.o"), work.join("visible.txt"));
    write(&visible, &names.join("\n"))?;
    let mut link = shell.command("ld", &["-r", "--gc-sections", "-o", &text(&whole)]);
    run(link.args(names.iter().flat_map(|name| ["-u", name])).arg(archive))?;
    let mut localise = shell.command("objcopy", &["--strip-debug"]);
    // The compiler's bitcode of several objects, one after another, is none.
    localise.args(["--remove-section=.llvmbc", "--remove-section=.llvmcmd"]);
    localise.arg(format!("--keep-global-symbols={}", visible.display())).args([&whole, &object]);
    run(&mut localise)?;
    archived(shell, &lib.join("libcudaq-realtime-udp-transport.a"), &object)
}

fn archived(shell: &Shell, archive: &Path, object: &Path) -> Result<()> {
    run(&mut shell.command("ar", &["rcs", &text(archive), &text(object)]))
}

/// Builds and runs programs against the tree by the names of its files, then by its CMake targets.
pub(crate) fn check(shell: &Shell, out: &Path, work: &Path) -> Result<()> {
    let compat = out.join("compat");
    let (include, lib) = (format!("-I{}", compat.join("include").display()), compat.join("lib"));
    let library = |name: &str| text(&lib.join(name));
    let rpath = format!("-Wl,-rpath,{}", lib.display());
    let programs: [(&str, &[&str]); 2] = [
        ("host_path", &["libcudaq-realtime-host-dispatch.a", "libcudaq-realtime.so"]),
        ("udp_echo", &["libcudaq-realtime-udp-transport.a"]),
    ];
    for (program, libraries) in programs {
        let built = text(&work.join(format!("{program}-compat")));
        let mut compile =
            shell.command("cc", &["-std=c11", "-Wall", "-Wextra", "-Werror", &include, "-o", &built]);
        compile.arg(work.join(format!("{program}.c"))).args(libraries.iter().map(|name| library(name)));
        run(compile.args([&rpath, "-pthread", "-lm", "-ldl"]))?;
        run(&mut shell.command(&built, &[]))?;
    }
    Ok(())
}

/// Links a program of CUDA C++ with all archives of the tree, in the order that its CMake configuration tells.
pub(crate) fn check_device(shell: &Shell, out: &Path, work: &Path) -> Result<()> {
    let (compat, cuda) = (out.join("compat"), Cuda::find(shell)?);
    let mut compile = cuda.tool(shell, "nvcc");
    compile.args(["-std=c++17", "-rdc=true", "-arch=sm_90", "-Werror", "all-warnings", "-I"]);
    compile.arg(compat.join("include")).arg(shell.root().join("tests/c_programs/kernel_terms.cu"));
    for library in ["dispatch.a", "host-dispatch.a", "udp-transport.a"] {
        compile.arg(compat.join(format!("lib/libcudaq-realtime-{library}")));
    }
    compile.arg(compat.join("lib/libcudaq-realtime.so")).arg("-L");
    compile.arg(cuda.device_runtime.parent().context("a library is in a folder")?);
    run(compile.arg("-o").arg(work.join("kernel_terms")))
}

/// Configures, builds and runs `programs` of a CMake project against the tree installed in `prefix`.
pub(crate) fn check_cmake(shell: &Shell, project: &Path, prefix: &Path, programs: &[&str]) -> Result<bool> {
    let Some(cmake) = cmake(shell) else {
        println!("no cmake here, and none from PyPI: the CMake configuration is not checked");
        return Ok(false);
    };
    let build = text(&emptied(project.join("build"))?);
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
    run(&mut shell.command(&cmake, &["-S", &text(project), "-B", &build, &prefix]))?;
    run(&mut shell.command(&cmake, &["--build", &build]))?;
    for program in programs {
        run(&mut shell.command(&text(&Path::new(&build).join(program)), &[]))
            .with_context(|| format!("{program}, built by CMake"))?;
    }
    Ok(true)
}

/// The decoder plug-in for CUDA-Q QEC by its own CMake project, against its stand-in headers of either interface.
pub(crate) fn check_cudaq_qec(shell: &Shell, work: &Path, prefix: &Path) -> Result<()> {
    let Some(cmake) = cmake(shell) else { return Ok(()) };
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
    for interface in ["matrices", "inputs"] {
        let build = emptied(work.join(format!("cudaq-qec-{interface}")))?;
        let stand_in = format!("-DRINGCALL_QEC_STAND_IN={interface}");
        let folders = ["-S", "bindings/cudaq-qec", "-B", &text(&build)];
        run(shell.command(&cmake, &folders).args([&prefix, &stand_in]))?;
        run(&mut shell.command(&cmake, &["--build", &text(&build)]))?;
        let plugin = build.join("libcudaq-qec-ringcall-decoder.so");
        run(&mut shell.command(&text(&build.join("decoder_test")), &[&text(&plugin)]))
            .with_context(|| format!("the plug-in for CUDA-Q QEC, over {interface}"))?;
    }
    Ok(())
}

/// The machine's `cmake`, else PyPI's, which is installed below the target folder.
pub(crate) fn cmake(shell: &Shell) -> Option<String> {
    let works =
        |program: &str| shell.command(program, &["--version"]).output().is_ok_and(|out| out.status.success());
    if works("cmake") {
        return Some("cmake".to_owned());
    }
    let packages = shell.target("tools").join("cmake");
    shell.pip_once(&packages, &["--no-deps", CMAKE_PACKAGE]).ok()?;
    let program = text(&packages.join("cmake/data/bin/cmake"));
    works(&program).then_some(program)
}

const CMAKE: &str = r#"# Ringcall in the place of CUDA-Q Realtime: its targets, by the reference's names.
#
# Order, for build files that name files instead of targets: libcudaq-realtime-dispatch.a before libcudaq-realtime.so, since
# both have launch functions and those of the archive, which have the kernels, are the ones to take; then
# libcudaq-realtime-host-dispatch.a and libcudaq-realtime-udp-transport.a in any order. The targets below link in this order.
get_filename_component(_cudaq_realtime_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(CUDAQ_REALTIME_INCLUDE_DIR "${_cudaq_realtime_prefix}/include")
set(CUDAQ_REALTIME_INCLUDE_DIRS "${CUDAQ_REALTIME_INCLUDE_DIR}")

if(NOT TARGET cudaq::cudaq-realtime)
  add_library(cudaq::cudaq-realtime SHARED IMPORTED)
  set_target_properties(cudaq::cudaq-realtime PROPERTIES
    IMPORTED_LOCATION "${_cudaq_realtime_prefix}/lib/libcudaq-realtime.so"
    INTERFACE_INCLUDE_DIRECTORIES "${CUDAQ_REALTIME_INCLUDE_DIR}")

  add_library(cudaq::cudaq-realtime-host-dispatch STATIC IMPORTED)
  set_target_properties(cudaq::cudaq-realtime-host-dispatch PROPERTIES
    IMPORTED_LOCATION "${_cudaq_realtime_prefix}/lib/libcudaq-realtime-host-dispatch.a"
    INTERFACE_LINK_LIBRARIES cudaq::cudaq-realtime)

  add_library(cudaq::cudaq-realtime-udp-transport STATIC IMPORTED)
  set_target_properties(cudaq::cudaq-realtime-udp-transport PROPERTIES
    IMPORTED_LOCATION "${_cudaq_realtime_prefix}/lib/libcudaq-realtime-udp-transport.a"
    INTERFACE_INCLUDE_DIRECTORIES "${CUDAQ_REALTIME_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "gcc_s;rt;pthread;m;dl")

  # Where the tree was made with CUDA's compiler (cargo xtask dist --device).
  if(EXISTS "${_cudaq_realtime_prefix}/lib/libcudaq-realtime-dispatch.a")
    add_library(cudaq::cudaq-realtime-dispatch STATIC IMPORTED)
    set_target_properties(cudaq::cudaq-realtime-dispatch PROPERTIES
      IMPORTED_LOCATION "${_cudaq_realtime_prefix}/lib/libcudaq-realtime-dispatch.a"
      INTERFACE_LINK_LIBRARIES cudaq::cudaq-realtime)
  endif()
endif()

unset(_cudaq_realtime_prefix)
"#;
