SELECT tidewire.make_publications()
