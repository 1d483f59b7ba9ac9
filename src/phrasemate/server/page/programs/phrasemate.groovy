/* :name=phrasemate :description=Equivalents of the selected words, or of the segment, from a phrasemate server
 *
 * Save this file in the scripts folder of OmegaT (Tools > Scripting). It prints to the scripting window.
 */
import groovy.json.JsonOutput
import groovy.json.JsonSlurper

def server = "http://127.0.0.1:8000"
def token = ""  // only for a server that needs a token

def segment = editor.currentEntry ? editor.currentEntry.srcText : ""
def selected = editor.selectedText ? editor.selectedText.trim() : ""
def at = selected ? segment.indexOf(selected) : -1
def text = selected ?: segment
if (at >= 0 && !segment.contains("[[")) {  // mark the selected words in their segment
    text = segment.substring(0, at) + "[[" + selected + "]]" + segment.substring(at + selected.length())
}
if (!text) {
    console.println("phrasemate: open a segment, or select words")
    return
}
def language = project.projectProperties.targetLanguage.languageCode.toLowerCase()
def connection = new URL(server + "/api/v1/suggest").openConnection()
connection.requestMethod = "POST"
connection.doOutput = true
connection.connectTimeout = 5000
connection.readTimeout = 20000
connection.setRequestProperty("Content-Type", "application/json")
if (token) connection.setRequestProperty("Authorization", "Bearer " + token)
try {
    connection.outputStream.withWriter("UTF-8") { it << JsonOutput.toJson([text: text, target_language: language, k: 5]) }
    if (connection.responseCode != 200) {
        console.println("phrasemate: " + new JsonSlurper().parse(connection.errorStream, "UTF-8").error.message)
        return
    }
} catch (IOException error) {
    console.println("phrasemate: no answer from " + server + " (" + error.message + ")")
    return
}
def answer = new JsonSlurper().parse(connection.inputStream, "UTF-8")
answer.phrases.each { phrase ->
    console.println(phrase.phrase)
    phrase.suggestions.each { console.println(String.format("  %3d %%  %s  (%s)  %s", it.quality, it.text, it.source, it.example)) }
}
if (!answer.phrases) console.println("phrasemate: nothing for this segment in " + language)
