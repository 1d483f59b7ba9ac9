// An event script of OmegaT: when a segment is opened, runs the script SCRIPT as OmegaT runs it, without and with a
// selected word, writes what it printed and what OmegaT has read of the project into the file RESULT, and ends OmegaT.
import groovy.json.JsonOutput
import javax.swing.SwingUtilities
import org.omegat.core.Core
import org.omegat.gui.scripting.IScriptLogger
import org.omegat.gui.scripting.ScriptItem
import org.omegat.gui.scripting.ScriptRunner

class Console implements IScriptLogger {
    def lines = []
    void print(Object text) { lines << text.toString() }
    void println(Object text) { lines << text.toString() }
    void clear() { lines.clear() }
}

def run = {
    def console = new Console()
    ScriptRunner.executeScript(new ScriptItem(new File("SCRIPT")), [console: console])
    console.lines
}
def select = {
    editor.dockableSelected = true  // as after a click into the editor: without a window manager no window has the focus
    def at = editor.editor.text.indexOf("bank")
    if (at >= 0) editor.editor.select(at, at + 4)
}
def glossary = { Core.glossaryManager.getGlossaryEntries("Bank") }
def wait = { ready ->  // OmegaT reads its files and fills its editor in threads of their own
    for (tries in 1..300) {
        if (ready()) break
        sleep(100)
    }
}
Thread.start {
    def result = [:]
    try {
        result.name = new ScriptItem(new File("SCRIPT")).scriptName
        wait { editor.currentEntry }
        result.segment = run()
        wait {
            SwingUtilities.invokeAndWait {  // nothing else of the window's then changes the selection
                select()
                if (editor.selectedText == "bank") result.selected = run()
            }
            result.selected
        }
        wait { glossary().size() >= 20 && project.transMemories }
        result.glossary = glossary().collect { [it.srcText, it.locText, it.commentText] }
        result.memory = project.transMemories.values().collectMany { it.entries.collect { [it.source, it.translation] } }
    } catch (Throwable error) {
        result.error = error.toString()
    }
    new File("RESULT").setText(JsonOutput.toJson(result), "UTF-8")
    Runtime.runtime.halt(0)
}
