SELECT mode, finishing, staged_until, tidewire.slot_name(), chosen, repairing
FROM tidewire.capture
