DELETE FROM tidewire.subscriptions WHERE id = $1
