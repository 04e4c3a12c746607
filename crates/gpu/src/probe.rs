//! Finds the devices of all backends, and selects the named one.

use std::sync::Arc;

use super::device::{Device, Found, Properties};
use super::{NAME, cuda, opencl};

/// In the order of the search for a GPU.
const BACKENDS: &[Backend] = &[
    Backend { name: cuda::NAME, devices: cuda::devices },
    Backend { name: opencl::NAME, devices: opencl::devices },
];

struct Backend {
    name: &'static str,
    devices: fn() -> Found,
}

/// The device that a selector names: `gpu`, the first real GPU, or `gpu:BACKEND:DEVICE`. The error
/// is the reason as text.
pub(super) fn device(selector: &str) -> Result<Arc<dyn Device>, String> {
    let parameters = selector.strip_prefix(NAME).unwrap_or(selector);
    let parameters = parameters.strip_prefix(':').unwrap_or(parameters);
    let device = match parameters.split_once(':') {
        None if parameters.is_empty() => first_gpu()?,
        None => named(parameters, "")?,
        Some((backend, device)) => named(backend, device)?,
    };
    let has = device.properties().shared_memory;
    if has < LEAST_SHARED_MEMORY {
        let name = &device.properties().name;
        return Err(format!(
            "{name} has {has} bytes of local memory, and the kernels need {LEAST_SHARED_MEMORY}"
        ));
    }
    Ok(device)
}

fn first_gpu() -> Result<Arc<dyn Device>, String> {
    let mut reasons = Vec::new();
    for backend in BACKENDS {
        match (backend.devices)() {
            Ok(devices) => {
                if let Some(gpu) = devices.iter().find(|device| device.properties().is_gpu) {
                    return Ok(Arc::clone(gpu));
                }
                let others: Vec<_> = devices.iter().map(|device| selector(&**device)).collect();
                reasons.push(format!(
                    "{} lists no GPU; other devices are used only when named, as in {}",
                    backend.name,
                    others.join(", ")
                ));
            }
            Err(reason) => reasons.push(reason),
        }
    }
    Err(reasons.join("; "))
}

fn named(backend: &str, wanted: &str) -> Result<Arc<dyn Device>, String> {
    let found = BACKENDS.iter().find(|known| known.name == backend).ok_or_else(|| {
        let names: Vec<_> = BACKENDS.iter().map(|backend| backend.name).collect();
        format!("there is no backend `{backend}`; there are {}", names.join(", "))
    })?;
    let devices = (found.devices)()?;
    let chosen = devices.iter().find(|device| is_meant(device.properties(), wanted));
    chosen.cloned().ok_or_else(|| {
        let all: Vec<_> = devices
            .iter()
            .map(|device| format!("{} ({})", selector(&**device), device.properties().name))
            .collect();
        format!("{backend} has no device `{wanted}`; it has {}", all.join(", "))
    })
}

/// Returns whether a device has this number, or this text in its name or its driver's. An empty
/// text matches any device.
fn is_meant(properties: &Properties, wanted: &str) -> bool {
    if let Ok(index) = wanted.parse::<usize>() {
        return properties.index == index;
    }
    let wanted = wanted.to_lowercase();
    [&properties.name, &properties.driver].iter().any(|text| text.to_lowercase().contains(&wanted))
}

fn selector(device: &dyn Device) -> String {
    let Properties { backend, index, .. } = device.properties();
    format!("{NAME}:{backend}:{index}")
}

/// The narrow tables of AES, in bytes.
const LEAST_SHARED_MEMORY: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_known_by_its_number_or_name() {
        let properties = Properties {
            backend: "opencl",
            index: 1,
            name: "pthread-skylake".to_owned(),
            driver: "OpenCL 3.0 PoCL 3.1".to_owned(),
            memory: 0,
            largest_allocation: 0,
            shared_memory: 0,
            largest_group: 0,
            units: 1,
            clock: 0,
            cache: 0,
            is_gpu: false,
        };
        for wanted in ["1", "pocl", "PThread", ""] {
            assert!(is_meant(&properties, wanted), "{wanted}");
        }
        for wanted in ["0", "2", "nvidia"] {
            assert!(!is_meant(&properties, wanted), "{wanted}");
        }
    }

    #[test]
    fn an_unknown_backend_is_answered_with_the_known_ones() {
        let Err(reason) = device("gpu:vulkan:0") else { panic!("found Vulkan") };
        assert!(reason.contains("`vulkan`") && reason.contains("opencl"), "{reason}");
    }
}
