use ringcall_handler::{Grid, Output, Warp, handler};

#[handler(kind = "warp")]
fn exclusive(warp: Warp<'_>, result: &mut [u8; 4]) {
    result[0] = warp.lane() as u8;
}

#[handler(kind = "warp")]
fn teamless(input: &[u8; 4], output: Output<'_, [u8; 4]>) {
    output.set(0, input[0]);
}

#[handler]
fn lonely(grid: Grid<'_>, input: &[u8; 4]) -> u8 {
    input[grid.rank() as usize]
}

#[handler]
fn shared(input: &[u8; 4], output: Output<'_, [u8; 4]>) {
    output.set(0, input[0]);
}

fn main() {}
