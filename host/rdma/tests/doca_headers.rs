//! The offsets that the build script reads from a DOCA SDK's headers. `RINGCALL_DOCA_INCLUDE` names their folder, `LIBCLANG_PATH` a
//! libclang's; `cargo xtask doca` runs this.

use ringcall_rdma::doca::QpLayout;

#[test]
fn a_known_generation_has_the_known_offsets() {
    let layout = match QpLayout::installed() {
        Ok(layout) => layout,
        Err(error) => {
            eprintln!("skipped: a_known_generation_has_the_known_offsets: {error}");
            return;
        }
    };
    // A generation is known by its size.
    let known = [QpLayout::SDK, QpLayout::OPEN_2_0];
    if let Some(known) = known.into_iter().find(|known| known.bytes == layout.bytes) {
        assert_eq!(layout, known);
    }
    eprintln!("ran: the installed SDK's queue pair has {} bytes", layout.bytes);
}
