//! The graphs of a service: what the kernels of each instance know, and the nodes around the network.

use crate::engine::{Capturable, Captured};
use crate::options::{ServiceOptions, Transfer};
use crate::{Bindings, Queue, ServiceError};
use core::sync::atomic::Ordering;
use ringcall_cuda::driver::{
    DeviceAddress, DeviceBuffer, Graph, KernelArgs, Launch, MappedRegion, Module, NodeId,
};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_kernels::inference::{COPY_THREADS, Ends, GATEWAY, PREDECODER, PTX, SIGNAL_THREADS};
use ringcall_launch::ring::{DeviceError, GraphNodes, Modules};
use ringcall_protocol::handoff::Shape;
use ringcall_wire::handoff::{TENSOR_ALIGN, instance};
use ringcall_wire::launch::io;
use std::sync::Arc;

/// Everything that the graphs of one service refer to.
#[derive(Debug)]
pub(crate) struct Nodes {
    pub(crate) engine: String,
    pub(crate) inputs: Bindings,
    pub(crate) outputs: Bindings,
    pub(crate) instances: Vec<Instance>,
    transfers: [Transfer; 2],
    gated: bool,
    ends: Ends,
    module: Module,
}

/// One instance of the network, and its queue.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) captured: Box<dyn Captured>,
    pub(crate) queue: Option<Arc<Queue>>,
    block: DeviceBuffer,
    /// Address of the queue, and the shape again.
    queue_at: Option<(DeviceAddress, Shape)>,
    /// 1 once it is part of a graph: a second one would run it at the same time.
    taken: DeviceU64,
    _region: Option<MappedRegion>,
}

/// An instance's tensor. That an engine has it was checked when the service was made.
fn tensor<'a>(
    find: impl Fn(usize) -> Option<&'a DeviceBuffer>,
    engine: &str,
    binding: &crate::Binding,
) -> Result<&'a DeviceBuffer, ServiceError> {
    let room = binding.bytes.next_multiple_of(TENSOR_ALIGN);
    let fits = |buffer: &&DeviceBuffer| {
        buffer.len() >= room && buffer.address().0.is_multiple_of(TENSOR_ALIGN as u64)
    };
    find(binding.index).filter(fits).ok_or_else(|| ServiceError::Engine {
        engine: engine.to_owned(),
        reason: format!(
            "tensor `{}` has no memory of {room} bytes at a multiple of {TENSOR_ALIGN}",
            binding.spec.name
        ),
    })
}

impl Nodes {
    /// `depth` records for each instance; `None` for graphs that answer by themselves.
    pub(crate) fn new(
        engine: &dyn Capturable,
        options: &ServiceOptions,
        depth: Option<u32>,
    ) -> Result<Self, ServiceError> {
        let name = engine.name();
        let inputs = Bindings::choose(name, "input", engine.inputs(), &options.inputs)?;
        let outputs = Bindings::choose(name, "output", engine.outputs(), &options.outputs)?;
        let instances = options.instances;
        if instances == 0 {
            return Err(ServiceError::Shape("a service needs at least one instance".to_owned()));
        }
        if let Some(most) = engine.most_instances().filter(|&most| instances > most) {
            return Err(ServiceError::Instances { engine: name.to_owned(), instances, most });
        }
        if options.output_transfer == Transfer::Dma && !options.gated {
            // A copy node runs whether a record was granted or not.
            return Err(ServiceError::Shape(
                "outputs go by copy nodes only to a queue that is looked at before a launch".to_owned(),
            ));
        }
        if options.output_transfer == Transfer::Dma && depth != Some(1) {
            return Err(ServiceError::Shape(
                "copy nodes need a fixed destination: outputs go by them to queues of one record alone"
                    .to_owned(),
            ));
        }
        let context = engine.context();
        let made: Vec<_> = (0..instances)
            .map(|_| Instance::new(engine, options, depth, &inputs, &outputs))
            .collect::<Result<_, _>>()?;
        let module = Modules::new().ptx_for("the service's kernels", PTX, context)?.load_alone(context)?;
        Ok(Self {
            engine: name.to_owned(),
            inputs,
            outputs,
            instances: made,
            transfers: [options.input_transfer, options.output_transfer],
            gated: options.gated,
            ends: if depth.is_some() { PREDECODER } else { GATEWAY },
            module,
        })
    }

    fn shape(&self, why: &str, index: u32) -> DeviceError {
        DeviceError::Shape(format!("instance {index} of the service of `{}` {why}", self.engine))
    }
}

impl Instance {
    fn new(
        engine: &dyn Capturable,
        options: &ServiceOptions,
        depth: Option<u32>,
        inputs: &Bindings,
        outputs: &Bindings,
    ) -> Result<Self, ServiceError> {
        let context = engine.context();
        let captured = engine.instance()?;
        let output_bytes = outputs.bytes() as u32;
        let shape = depth
            .map(|depth| {
                let shape = Shape::new(depth, output_bytes);
                shape.ok_or_else(|| {
                    let why = format!("a queue of {depth} records of {output_bytes} bytes cannot be");
                    ServiceError::Shape(why)
                })
            })
            .transpose()?;
        let region = shape.map(|shape| MappedRegion::zeroed(context, shape.bytes())).transpose()?;
        let (mut queue, mut queue_at) = (None, None);
        if let (Some(shape), Some(region)) = (shape, &region) {
            let words = region.words(0, shape.bytes() / 8)?;
            queue = Some(Arc::new(Queue::over(words, region.bytes(0, shape.bytes())?, shape)?));
            queue_at = Some((region.device_address(0)?, shape));
        }
        let flag = |transfer, flag| if transfer == Transfer::Kernel { flag } else { 0 };
        let mut words = [0; instance::WORDS];
        words[instance::QUEUE] = queue_at.map_or(0, |(address, _)| address.0);
        words[instance::DEPTH] = depth.unwrap_or(0).into();
        words[instance::OUTPUT_BYTES] = output_bytes.into();
        words[instance::POLL_LIMIT] = options.poll_limit;
        words[instance::FAILED] = captured.failed().map_or(0, |word| word.address().0);
        words[instance::REQUEST_BYTES] = inputs.bytes() as u64;
        words[instance::FLAGS] = flag(options.input_transfer, instance::COPIES_IN)
            | flag(options.output_transfer, instance::COPIES_OUT);
        words[instance::INPUTS] = inputs.bound().len() as u64;
        words[instance::OUTPUTS] = outputs.bound().len() as u64;
        for (i, binding) in inputs.bound().iter().enumerate() {
            let at = tensor(|index| captured.input(index), engine.name(), binding)?.address();
            words[instance::INPUT + 2 * i] = at.0;
            words[instance::INPUT + 2 * i + 1] = binding.bytes as u64;
        }
        for (i, binding) in outputs.bound().iter().enumerate() {
            let at = tensor(|index| captured.output(index), engine.name(), binding)?.address();
            words[instance::OUTPUT + 2 * i] = at.0;
            words[instance::OUTPUT + 2 * i + 1] = binding.bytes as u64;
        }
        let block = DeviceBuffer::zeroed(context, instance::WORDS * 8)?;
        let bytes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
        block.write_from(0, &bytes)?;
        Ok(Self { captured, queue, block, queue_at, taken: DeviceU64::new(0), _region: region })
    }

    /// The record that the next job goes to, at its device address.
    fn next_record(&self) -> Result<u64, DeviceError> {
        let Some((queue, shape)) = self.queue_at else { return Ok(0) };
        let mut tail = [0; 8];
        self.block.read_into(instance::TAIL * 8, &mut tail)?;
        let record = shape.record(shape.index(u64::from_le_bytes(tail)));
        Ok(queue.offset(record as u64 * 8).0)
    }
}

impl GraphNodes for Nodes {
    fn add(
        &self,
        graph: &mut Graph,
        index: u32,
        mailbox: DeviceAddress,
        capacity: u32,
    ) -> Result<(), DeviceError> {
        let instance =
            self.instances.get(index as usize).ok_or_else(|| self.shape("does not exist", index))?;
        if self.inputs.bytes() > capacity as usize {
            let why = format!("takes requests of {} bytes, a slot has {capacity}", self.inputs.bytes());
            return Err(self.shape(&why, index));
        }
        if instance.taken.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return Err(self.shape("is part of a graph already: make another service", index));
        }
        let args = KernelArgs::new().address(mailbox).address(instance.block.address());
        let launch = |transfer| {
            Launch::linear(1, if transfer == Transfer::Kernel { COPY_THREADS } else { SIGNAL_THREADS })
        };
        let [input, output] = self.transfers;
        let first = graph.add_kernel(&self.module.kernel(self.ends.input)?, &launch(input), &args, &[])?;
        let mut before = vec![first];
        if input == Transfer::Dma {
            before = each(self.inputs.bound(), |binding| {
                let Some(to) = instance.captured.input(binding.index) else { return Ok(first) };
                let from = mailbox.offset((io::PAYLOAD + binding.offset) as u64);
                Ok(graph.add_copy(to.address(), from, binding.bytes, &[first])?)
            })?;
        }
        let mut after = instance.captured.add_to(graph, &before)?;
        if let (Transfer::Dma, Some((queue, shape))) = (output, instance.queue_at) {
            let network = after.clone();
            after.extend(each(self.outputs.bound(), |binding| {
                let from = instance.captured.output(binding.index);
                let from = from.ok_or_else(|| self.shape("has lost an output", index))?;
                let to = queue.offset((shape.output_at(0) + binding.offset) as u64);
                Ok(graph.add_copy(to, from.address(), binding.bytes, &network)?)
            })?);
        }
        graph.add_kernel(&self.module.kernel(self.ends.output)?, &launch(output), &args, &after)?;
        Ok(())
    }

    fn gate(&self, index: u32) -> Result<u64, DeviceError> {
        self.instances.get(index as usize).filter(|_| self.gated).map_or(Ok(0), Instance::next_record)
    }

    fn answers(&self) -> bool {
        // With a queue, its reader answers.
        self.instances.iter().all(|instance| instance.queue_at.is_none())
    }
}

fn each(
    bindings: &[crate::Binding],
    add: impl FnMut(&crate::Binding) -> Result<NodeId, DeviceError>,
) -> Result<Vec<NodeId>, DeviceError> {
    bindings.iter().map(add).collect()
}
