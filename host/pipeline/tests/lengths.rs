//! Requests of several lengths in one ring: each goes through the engine of its own length.

mod support;

use ringcall::Status;
use ringcall::wire::schema::HandlerSchema;
use ringcall_infer::{ElementType, Model, Passthrough, TensorSpec};
use ringcall_pipeline::{Pipeline, ShapedStage, StageContext, StageOutcome, WorkerResources};
use support::*;

/// Bytes of each shape's input and output. The output is a part of the input.
const SHAPES: [(usize, usize); 4] = [(3, 2), (8, 8), (21, 5), (40, 40)];

fn worker() -> WorkerResources {
    let tensor = |bytes| vec![TensorSpec::new("bytes", ElementType::U8, vec![1, bytes]).expect("a tensor")];
    let engines = SHAPES.map(|(input, output)| {
        let model = Passthrough::with_outputs("copy", tensor(input), tensor(output)).expect("a model");
        model.instantiate().expect("an engine")
    });
    let stage = ShapedStage::new(engines).expect("lengths of their own");
    WorkerResources::inline("echo", HandlerSchema::new(), stage.output_bytes(), stage)
}

#[test]
fn a_requests_own_length_chooses_its_engine() {
    let log = Log::default();
    let completed = log.clone();
    let running = Pipeline::builder()
        .config(config(3, 8))
        .gpu_stage(|_| Ok(worker()))
        .cpu_stage(|_| {
            Ok(Box::new(|context: &mut StageContext<'_>| {
                context.response[..context.output.len()].copy_from_slice(context.output);
                StageOutcome::Done(context.output.len())
            }))
        })
        .on_completion(move |completion| completed.push(completion))
        .build()
        .expect("built")
        .start()
        .expect("started");
    let mut injector = running.injector().expect("the first");
    // Lengths follow one another in no order, and every fifth matches no shape.
    let lengths: Vec<usize> =
        (0..1000_usize).map(|i| if i % 5 == 4 { 4 + i % 3 } else { SHAPES[i * 7 % 11 % 4].0 }).collect();
    let payload = |i: usize| (0..lengths[i]).map(|at| (i * 31 + at) as u8).collect::<Vec<_>>();
    for i in 0..lengths.len() {
        submit(&mut injector, &payload(i), i as u64);
    }
    let done = log.wait(lengths.len());
    assert!(running.stop(LONG).report.is_clean());
    for done in done {
        let i = done.id as usize;
        match SHAPES.iter().find(|(input, _)| *input == lengths[i]) {
            Some((_, output)) => assert_eq!(done.result.as_deref(), Some(&payload(i)[..*output]), "{i}"),
            None => assert_eq!(done.status, Status::SCHEMA_MISMATCH, "{i}"),
        }
    }
}
