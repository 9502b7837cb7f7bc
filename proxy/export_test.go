package proxy

// MemoryUsed returns how much of Config.MaxMemory is taken.
func (p *Proxy) MemoryUsed() int64 { return p.state.memory.used.Load() }
