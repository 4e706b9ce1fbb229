use ringcall_handler::handler;

#[handler]
fn wide(count: u64) -> u8 {
    count as u8
}

#[handler]
fn aligned(weights: &[f32; 4]) -> f32 {
    weights[0]
}

fn main() {}
