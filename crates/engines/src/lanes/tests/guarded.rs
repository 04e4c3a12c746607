//! No access outside the messages: every message is at the edge of unmapped memory.

use evener_core::{Engine, Job, Key, Outcome, SessionRequest};

use super::messages::{Message, Random, engines, offers};
use super::sys::Guarded;

#[test]
fn nothing_outside_the_messages_is_touched() {
    let mut random = Random(3);
    let mut places: Vec<_> = (0..2 * COUNT).map(|_| Guarded::new(LONGEST + 16)).collect();
    let (inputs, outputs) = places.split_at_mut(COUNT);
    for engine in engines() {
        for (cipher, direction) in offers(&*engine) {
            for edge in [Edge::Start, Edge::End] {
                for own_keys in [false, true] {
                    let key = Key::new(&random.bytes(cipher.key_length())).unwrap();
                    let messages: Vec<_> = (0..COUNT)
                        .map(|index| {
                            let limit = [17, 130, LONGEST][index % 3];
                            let length = random.below(limit);
                            Message::random(&mut random, cipher, direction, &key, own_keys, length)
                        })
                        .collect();
                    let request = SessionRequest { cipher, direction, key: Some(&key) };
                    run(&*engine, &request, edge, &messages, inputs, outputs);
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Edge {
    Start,
    End,
}

impl Edge {
    fn slice(self, place: &mut Guarded, length: usize) -> &mut [u8] {
        let bytes = place.bytes();
        match self {
            Edge::Start => &mut bytes[..length],
            Edge::End => {
                let start = bytes.len() - length;
                &mut bytes[start..]
            }
        }
    }
}

fn run(
    engine: &dyn Engine,
    request: &SessionRequest<'_>,
    edge: Edge,
    messages: &[Message],
    inputs: &mut [Guarded],
    outputs: &mut [Guarded],
) {
    let &SessionRequest { cipher, direction, .. } = request;
    let mut session = engine.open(request).unwrap();
    let mut batch: Vec<Job<'_>> = messages
        .iter()
        .zip(inputs.iter_mut().zip(outputs))
        .map(|(message, (input, output))| {
            let input = edge.slice(input, message.input.len());
            input.copy_from_slice(&message.input);
            let output = edge.slice(output, message.output_length(cipher, direction));
            message.job(input, output)
        })
        .collect();
    session.process(&mut batch).unwrap();
    for (job, message) in batch.iter().zip(messages) {
        assert_eq!(job.outcome, message.outcome, "{direction} {cipher}");
        if let Outcome::Done { written } = job.outcome {
            assert!(job.output[..written] == message.expected, "{direction} {cipher}");
        }
    }
}

/// More than the lanes of the widest kernel, and no multiple of them.
const COUNT: usize = 39;

const LONGEST: usize = 1500;
